"""ReplaySession: one replay in progress, to be run through or advanced and looked into."""

from __future__ import annotations

import time

import numpy as np

from autotune.allocator.model import heap as h
from autotune.allocator.model.compiled import compile_now
from autotune.allocator.model.layout import new_heap
from autotune.allocator.model.operations import Operations
from autotune.allocator.model.replay import advance
from autotune.allocator.model.rules import make_rules
from autotune.allocator.result import DeviceCalls, ReplayResult
from autotune.errors import TraceError
from autotune.measurement import Outcome
from autotune.settings import AllocatorSettings, TorchVersion


class ReplaySession:
    """The allocator's state after some rows of a trace.

    Args:
        operations: the trace, made ready.
        settings, memory_limit, device_total, torch_version: as in `Engine.replay`.
        max_calls: driver calls to keep; further ones are only counted.
    """

    def __init__(
        self,
        operations: Operations,
        settings: AllocatorSettings,
        *,
        memory_limit: int | None,
        device_total: int,
        torch_version: TorchVersion,
        max_calls: int = 0,
    ) -> None:
        self.operations = operations
        self.settings = settings
        rules = make_rules(
            settings, memory_limit=memory_limit, device_total=device_total, torch_version=torch_version
        )
        self.heap = new_heap(operations, rules, settings.roundup_divisions(torch_version), max_calls)
        self.seconds = 0.0
        """Wall-clock time spent in `advance`, without compiling."""
        compile_now(advance, (self.heap, *operations.columns, 0))

    def advance(self, stop: int | None = None) -> int:
        """Replay up to, and not including, row `stop` (default: to the end); the row reached.

        Raises:
            TraceError: a row frees a block that is not allocated, or allocates one that is.
        """
        last = len(self.operations.block)
        started = time.perf_counter()
        row = advance(self.heap, *self.operations.columns, last if stop is None else min(stop, last))
        self.seconds += time.perf_counter() - started
        if self.status == h.INVALID:
            block = self.operations.block[row]
            what = "allocates" if self.operations.is_alloc[row] else "frees"
            raise TraceError(
                f"Row {row} of the trace {what} block {block} out of turn; record the trace again."
            )
        return row

    @property
    def status(self) -> int:
        """RUNNING, OUT_OF_MEMORY or HALTED."""
        return int(self.heap[h.STATUS])

    def halt_at(self, reserved: int) -> None:
        """Stop as soon as an operation that goes on asking the driver has that many bytes reserved."""
        self.heap[h.HALT_AT_RESERVED] = reserved

    @property
    def num_calls(self) -> int:
        """Driver calls so far, kept or not."""
        return int(self.heap[h.NUM_CALLS])

    @property
    def device_calls(self) -> DeviceCalls:
        """The driver calls so far."""
        first = int(self.heap[h.CALLS])
        calls = self.heap[first : first + h.CALL_FIELDS * self.num_calls].reshape(-1, h.CALL_FIELDS)
        return DeviceCalls(
            operation=calls[:, h.CALL_ROW].copy(),
            kind=calls[:, h.CALL_KIND].astype(np.uint8),
            size=calls[:, h.CALL_SIZE].copy(),
        )

    def result(self) -> ReplayResult:
        """What happened so far."""
        ran_out, row = self.status == h.OUT_OF_MEMORY, int(self.heap[h.ROW])
        return ReplayResult(
            settings=self.settings,
            engine="model",
            outcome=Outcome.OUT_OF_MEMORY if ran_out else Outcome.COMPLETED,
            failed_operation=row if ran_out else None,
            operations=row,
            peak_requested_bytes=int(self.heap[h.PEAK_REQUESTED]),
            peak_allocated_bytes=int(self.heap[h.PEAK_ALLOCATED]),
            peak_active_bytes=int(self.heap[h.PEAK_ALLOCATED]),
            peak_reserved_bytes=int(self.heap[h.PEAK_RESERVED]),
            reserved_bytes_at_end=int(self.heap[h.RESERVED]),
            num_device_alloc=int(self.heap[h.NUM_DEVICE_ALLOC]),
            num_device_free=int(self.heap[h.NUM_DEVICE_FREE]),
            num_alloc_retries=int(self.heap[h.NUM_RETRIES]),
            seconds=self.seconds,
            device_calls=self.device_calls,
        )
