"""The comparison: one case through the model and through PyTorch's own allocator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Executor

import numpy as np

from autotune.allocator.model import Model
from autotune.allocator.result import DeviceCall, Engine, ReplayResult
from autotune.settings import AllocatorSettings
from tests.referee.cases import Case

COUNTS = (
    "failed_operation", "operations",
    "peak_requested_bytes", "peak_allocated_bytes", "peak_active_bytes", "peak_reserved_bytes",
    "reserved_bytes_at_end", "num_device_alloc", "num_device_free", "num_alloc_retries",
)  # fmt: skip


class Disagreement(AssertionError):
    """The model and PyTorch's allocator differ on a case."""

    def __init__(self, case: Case, differences: Iterable[str]) -> None:
        super().__init__(f"{case}\n# " + "\n# ".join(differences))


def compare(cases: Sequence[Case], native: Engine, executor: Executor) -> list[ReplayResult]:
    """What PyTorch's allocator does with the cases, all of which the model must do too.

    Raises:
        Disagreement: on the first case where they differ.
    """
    answers = [executor.submit(replay, native, case) for case in cases]
    ours = [replay(Model(), case) for case in cases]
    theirs = [answer.result() for answer in answers]
    for case, mine, judge in zip(cases, ours, theirs, strict=True):
        differences = list(differing(mine, judge))
        if differences:
            raise Disagreement(case, differences)
    return theirs


def replay(engine: Engine, case: Case) -> ReplayResult:
    """The case through one engine."""
    return engine.replay(
        case.trace,
        AllocatorSettings.parse(case.settings),
        memory_limit=case.memory_limit,
        device_total=case.device_total,
        torch_version=case.torch,
    )


def differing(model: ReplayResult, native: ReplayResult) -> Iterable[str]:
    """One line a difference: every count, every byte, every driver call."""
    for name in COUNTS:
        mine, judge = getattr(model, name), getattr(native, name)
        if mine != judge:
            yield f"{name}: model {mine}, native {judge}"
    mine, judge = calls(model), calls(native)
    for index in range(max(len(mine), len(judge))):
        if mine[index : index + 1] != judge[index : index + 1]:
            yield f"device call {index}: model {mine[index : index + 1]}, native {judge[index : index + 1]}"
            return


def calls(result: ReplayResult) -> list[tuple[int, str, int]]:
    """Row, kind and bytes of each driver call."""
    made = result.device_calls
    rows = np.stack([made.operation, made.kind.astype(np.int64), made.size], axis=1).tolist()
    return [(row, DeviceCall(kind).name, size) for row, kind, size in rows]
