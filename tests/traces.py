"""Small traces for tests, and their replay with every invariant checked after every row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from autotune.allocator.conditions import Conditions
from autotune.allocator.model import ReplaySession, prepare
from autotune.allocator.model.invariants import check_invariants
from autotune.allocator.result import ReplayResult
from autotune.settings import AllocatorSettings
from autotune.trace import Recording, Trace
from autotune.units import GIB, MIB


class Program:
    """What a program does, line by line; sizes are in bytes."""

    def __init__(self) -> None:
        self._rows: list[tuple[bool, int, int, int, int]] = []
        self._blocks: list[tuple[int, int, int]] = []

    def alloc(self, size: float, *, stream: int = 0, pool: int = 0) -> int:
        """Allocate a block; its id."""
        self._blocks.append((int(size), stream, pool))
        self._rows.append((True, len(self._blocks) - 1, int(size), stream, pool))
        return len(self._blocks) - 1

    def free(self, *blocks: int) -> None:
        """Free blocks, in this order."""
        self._rows += [(False, block, *self._blocks[block]) for block in blocks]

    def cache(self, *sizes: float, stream: int = 0, pool: int = 0) -> None:
        """Allocate blocks, then free all of them: the allocator keeps the memory."""
        self.free(*[self.alloc(size, stream=stream, pool=pool) for size in sizes])

    def trace(self, **recording: Any) -> Trace:
        """The program as a trace."""
        columns = np.array(self._rows, dtype=np.int64).reshape(-1, 5).T
        return Trace(
            is_alloc=columns[0].astype(np.bool_),
            block=columns[1].copy(),
            size=columns[2].copy(),
            stream=columns[3].copy(),
            pool=columns[4].copy(),
            time_us=np.arange(columns.shape[1]),
            recording=Recording(**recording),
        )


def run(
    program: Program | Trace,
    settings: str = "",
    *,
    memory_limit: int | None = None,
    device_total: int = 4 * GIB,
    torch: tuple[int, int] = (2, 14),
) -> ReplayResult:
    """Replay row by row through the model, checking its invariants after each."""
    trace = program.trace() if isinstance(program, Program) else program
    conditions = Conditions(memory_limit=memory_limit, device_total=device_total, torch_version=torch)
    parsed = AllocatorSettings.parse(settings)
    parsed.validate(torch)
    session = ReplaySession(prepare(trace), parsed, **vars(conditions), max_calls=10_000)
    for row in range(trace.num_operations):
        reached = session.advance(row + 1)
        check_invariants(session)
        if reached == row:
            break
    return session.result()


def varying(steps: int = 12, **recording: Any) -> Trace:
    """A program of a few hundred rows whose sizes vary from step to step, so that settings matter."""
    program = Program()
    ends = []
    for step in range(steps):
        sizes = [(1 + (7 * step + 13 * index) % 90) * MIB for index in range(9)]
        program.cache(*sizes, *[300_000 * (index + 1) for index in range(4)])
        program.alloc(3 * MIB)
        ends.append(26 * (step + 1) + step + 1)
    known = {"torch": "2.14.0", "device_total_bytes": 4 * GIB, **recording}
    return replace(program.trace(**known), step_ends=tuple(ends))


__all__ = ["GIB", "MIB", "Program", "run", "varying"]
