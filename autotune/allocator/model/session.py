"""ReplaySession: one replay in progress, to be run through or advanced and looked into."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

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


class BlockView(NamedTuple):
    """A mapped block, as a look into a session shows it."""

    pool: int
    stream: int
    is_large: bool
    expandable: bool
    serves: int
    """The trace's block that lives in it, or NONE."""
    address: int
    size: int
    page_size: int
    """Of an expandable segment."""
    has_neighbours: bool

    @property
    def is_live(self) -> bool:
        """Whether it is in use."""
        return self.serves != h.NONE

    @property
    def returnable_bytes(self) -> int:
        """Of a free block: what could be given back, a whole segment or whole pages."""
        if not self.expandable:
            return 0 if self.has_neighbours else self.size
        end = (self.address + self.size) // self.page_size
        return max(0, end + -self.address // self.page_size) * self.page_size


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
    def peak_reserved(self) -> tuple[int, int]:
        """Most bytes reserved so far, and the row during which that was first reached."""
        return int(self.heap[h.PEAK_RESERVED]), int(self.heap[h.PEAK_RESERVED_ROW])

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
            pages=calls[:, h.CALL_PAGES].copy(),
        )

    @property
    def slots(self) -> h.Ints:
        """(num_blocks,) the block that serves each block of the trace now, or NONE."""
        first = int(self.heap[h.SLOTS])
        return self.heap[first : first + self.operations.num_blocks]

    def free_sets(self) -> range:
        """The sets of free blocks: small and large for each lane."""
        return range(int(self.heap[h.SETS]), int(self.heap[h.SETS_END]), h.SET_FIELDS)

    def blocks(self) -> Iterator[int]:
        """All blocks, segment after segment, within a segment in order of address."""
        for record in range(int(self.heap[h.BLOCKS]), int(self.heap[h.BLOCKS_END]), h.BLOCK_FIELDS):
            if self.heap[record + h.KIND] != h.UNUSED and self.heap[record + h.PREVIOUS] == h.NONE:
                block = record
                while block != h.NONE:
                    yield block
                    block = int(self.heap[block + h.NEXT])

    def segments(self) -> Iterator[list[BlockView]]:
        """The blocks of each segment, in order of address; unmapped ones are left out."""
        serves = {int(block): index for index, block in enumerate(self.slots) if block != h.NONE}
        segment: list[BlockView] = []
        for block in self.blocks():
            if self.heap[block + h.PREVIOUS] == h.NONE and segment:
                yield segment
                segment = []
            if self.heap[block + h.KIND] != h.UNMAPPED:
                segment.append(self._view(block, serves.get(block, h.NONE)))
        if segment:
            yield segment

    def _view(self, block: int, serves: int) -> BlockView:
        free_set = int(self.heap[block + h.SET])
        index = (free_set - int(self.heap[h.SETS])) // h.SET_FIELDS
        lane = self.operations.lanes[index // 2]
        return BlockView(
            pool=lane.pool,
            stream=lane.stream,
            is_large=index % 2 == 1,
            expandable=bool(self.heap[h.EXPANDABLE]),
            serves=serves,
            address=int(self.heap[block + h.ADDRESS]),
            size=int(self.heap[block + h.SIZE]),
            page_size=int(self.heap[free_set + h.PAGE_SIZE]),
            has_neighbours=any(self.heap[block + side] != h.NONE for side in (h.PREVIOUS, h.NEXT)),
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
