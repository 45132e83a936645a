"""ReplayRunner: measures by replaying a recorded trace through an allocator engine; no script, no GPU."""

from __future__ import annotations

import numpy as np

from autotune.allocator import replay
from autotune.allocator.cost import driver_seconds
from autotune.allocator.result import DeviceCall, ReplayResult
from autotune.measurement import Environment, Measurement, Obtained, Outcome
from autotune.settings import AllocatorSettings, TorchVersion
from autotune.trace.trace import Trace
from autotune.trial.outcome import beyond_limit
from autotune.units import format_bytes

UNKNOWN_WARMUP_SHARE = 0.2
"""Share of the operations that count as warm-up in a trace without step boundaries."""


class ReplayRunner:
    """Replays one trace under given settings. A Runner.

    Args:
        trace: what to replay.
        torch_version: whose rules to follow; None = the recording's.
        memory_limit: bytes that may be reserved; None = the whole device.
        device_total: bytes of the device; None = the recording's.
        engine: `model` or `native`.
        warmup_steps: steps whose device calls cost nothing, as they happen once.
    """

    def __init__(
        self,
        trace: Trace,
        *,
        torch_version: TorchVersion | None = None,
        memory_limit: int | None = None,
        device_total: int | None = None,
        engine: str = "model",
        warmup_steps: int = 5,
    ) -> None:
        recording = trace.recording
        self.trace = trace
        self._torch_version = torch_version
        self._memory_limit = memory_limit
        self._device_total = device_total
        self._engine = engine
        self.obtained = Obtained.ESTIMATED if recording.estimated else Obtained.REPLAYED
        self.environment = Environment(
            gpu=recording.gpu,
            torch=recording.torch if torch_version is None else ".".join(map(str, torch_version)),
            device_total_bytes=device_total or recording.device_total_bytes,
        )
        self.warmup_steps, self._first_operation, self.notes = steady_state(trace, warmup_steps)

    def measure(
        self, settings: AllocatorSettings, *, number: int, measured_steps: int | None = None
    ) -> Measurement:
        """Replay the trace once; it has the steps that it has."""
        result = replay(
            self.trace,
            settings,
            memory_limit=self._memory_limit,
            device_total=self._device_total,
            torch_version=self._torch_version,
            engine=self._engine,
        )
        return self.measurement_of(result)

    def measurement_of(self, result: ReplayResult) -> Measurement:
        """A replay under this runner's conditions, as a Measurement."""
        settings = str(result.settings)
        allocs, frees = self._steady_calls(result)
        known = allocs is not None
        outcome, reason = result.outcome, self._reason(result)
        if too_much := beyond_limit(outcome, result.peak_reserved_bytes, self._memory_limit):
            outcome, reason = Outcome.OUT_OF_MEMORY, too_much
        return Measurement(
            settings=settings,
            settings_in_effect=settings,
            obtained=self.obtained,
            outcome=outcome,
            reason=reason,
            notes=self.notes,
            environment=self.environment,
            memory_limit_bytes=self._memory_limit,
            warmup_steps=self.warmup_steps,
            peak_requested_bytes=result.peak_requested_bytes,
            peak_allocated_bytes=result.peak_allocated_bytes,
            peak_active_bytes=result.peak_active_bytes,
            peak_reserved_bytes=result.peak_reserved_bytes,
            num_device_alloc=result.num_device_alloc,
            num_device_free=result.num_device_free,
            num_alloc_retries=result.num_alloc_retries,
            may_adapt=result.may_adapt,
            num_ooms=int(outcome is Outcome.OUT_OF_MEMORY),
            steady_device_alloc=allocs,
            steady_device_free=frees,
            allocator_seconds=driver_seconds(result.device_calls, self._first_operation) if known else None,
        )

    def _steady_calls(self, result: ReplayResult) -> tuple[int | None, int | None]:
        """Device allocations and frees after warm-up; None where the engine does not list its calls."""
        calls = result.device_calls
        if len(calls.kind) == 0 and result.num_device_alloc:
            return None, None
        kinds = calls.kind[calls.operation >= self._first_operation]
        allocs = np.isin(kinds, (DeviceCall.ALLOC, DeviceCall.MAP))
        return int(allocs.sum()), int((~allocs).sum())

    def _reason(self, result: ReplayResult) -> str | None:
        if result.failed_operation is None:
            return None
        size = format_bytes(int(self.trace.size[result.failed_operation]))
        limit = f" within {format_bytes(self._memory_limit)}" if self._memory_limit else ""
        place = f"operation {result.failed_operation + 1:,} of {self.trace.num_operations:,}"
        adapt = " It is freed at once, as a workspace is." if result.may_adapt else ""
        return f"An allocation of {size} ({place}) found no memory{limit}.{adapt}"

    def close(self) -> None:
        """Nothing was started."""


def steady_state(trace: Trace, warmup_steps: int) -> tuple[int, int, tuple[str, ...]]:
    """Warm-up steps, the first operation after them, and what to say about it.

    As with real runs, a trace that ends during warm-up has half of its steps measured.
    """
    steps = len(trace.step_ends)
    if steps == 0:
        note = "The trace does not say where steps end, so the first 20 % of its operations count as warm-up."
        return 0, int(trace.num_operations * UNKNOWN_WARMUP_SHARE), (note,)
    warmup = warmup_steps if steps > warmup_steps else steps // 2
    return warmup, trace.step_ends[warmup - 1] if warmup else 0, ()
