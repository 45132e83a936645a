"""The replay loop: PyTorch's `malloc` and `free`, one row of a trace after the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from autotune.allocator.model.blocks import free_block, split
from autotune.allocator.model.compiled import SOURCE_DIGEST, compiled, entry_point
from autotune.allocator.model.expandable import map_for
from autotune.allocator.model.heap import (
    ALLOCATED,
    ALLOWED,
    COLLECTS,
    EXPANDABLE,
    HALT_AT_RESERVED,
    HALTED,
    INVALID,
    KIND,
    LIVE,
    NONE,
    NUM_RETRIES,
    OUT_OF_MEMORY,
    PEAK_ALLOCATED,
    PEAK_REQUESTED,
    POOL,
    PRIVATE_RETRY,
    REJECT_ABOVE,
    REQUESTED,
    RESERVED,
    ROW,
    RUNNING,
    SET_FIELDS,
    SETS,
    SIZE,
    SLOTS,
    STATUS,
    Heap,
    Ints,
)
from autotune.allocator.model.lookup import should_split, take_free
from autotune.allocator.model.release import collect_garbage, release_cached, release_oversize
from autotune.allocator.model.rounding import round_size, segment_size
from autotune.allocator.model.rules import SMALL_SIZE
from autotune.allocator.model.segments import allocate_segment


@compiled
def new_memory(heap: Heap, free_set: int, size: int) -> int:
    """A block from the driver, in no set, or NONE (PyTorch's `alloc_block`)."""
    from_driver = segment_size(heap, size)
    if heap[RESERVED] + from_driver > heap[ALLOWED]:
        return NONE
    if heap[RESERVED] + from_driver > heap[REJECT_ABOVE]:
        heap[STATUS] = OUT_OF_MEMORY
        return NONE
    if heap[EXPANDABLE]:
        return map_for(heap, free_set, size)
    return allocate_segment(heap, free_set, from_driver)


@compiled
def find_memory(heap: Heap, free_set: int, size: int) -> int:
    """A block for a request that no free block serves, or NONE with the reason in STATUS."""
    if heap[COLLECTS]:
        collect_garbage(heap)
    block = new_memory(heap, free_set, size)
    if block == NONE and heap[RESERVED] >= heap[HALT_AT_RESERVED]:
        heap[STATUS] = HALTED
    if block == NONE and heap[STATUS] == RUNNING and release_oversize(heap, free_set, size):
        block = new_memory(heap, free_set, size)
    if block == NONE and heap[STATUS] == RUNNING and (heap[PRIVATE_RETRY] or heap[free_set + POOL] == 0):
        release_cached(heap)
        heap[NUM_RETRIES] += 1
        block = new_memory(heap, free_set, size)
    if block == NONE and heap[STATUS] == RUNNING:
        heap[STATUS] = OUT_OF_MEMORY
    return block


@compiled
def allocate(heap: Heap, lane: int, requested: int) -> int:
    """Serve one request; the LIVE block, or NONE with the reason in STATUS."""
    size = round_size(heap, requested)
    free_set = heap[SETS] + (2 * lane + (size > SMALL_SIZE)) * SET_FIELDS
    block = take_free(heap, free_set, size)
    if block == NONE:
        block = find_memory(heap, free_set, size)
        if block == NONE:
            return NONE
    if should_split(heap, free_set, block, size):
        block = split(heap, block, size)
    heap[block + KIND] = LIVE
    heap[ALLOCATED] += heap[block + SIZE]
    heap[PEAK_ALLOCATED] = max(heap[PEAK_ALLOCATED], heap[ALLOCATED])
    heap[REQUESTED] += requested
    heap[PEAK_REQUESTED] = max(heap[PEAK_REQUESTED], heap[REQUESTED])
    return block


@compiled
def free(heap: Heap, block: int, requested: int) -> None:
    """Free a LIVE block."""
    heap[ALLOCATED] -= heap[block + SIZE]
    heap[REQUESTED] -= requested
    free_block(heap, block)


@compiled
def advance_rows(
    heap: Heap, is_alloc: npt.NDArray[np.bool_], block: Ints, size: Ints, lane: Ints, stop: int
) -> int:
    """Replay from the row reached so far up to, and not including, row `stop`; the row reached.

    Ends early, on the row in question, when STATUS is no longer RUNNING.
    """
    for row in range(heap[ROW], stop):
        heap[ROW] = row
        slot = heap[SLOTS] + block[row]
        if is_alloc[row] == (heap[slot] != NONE):
            heap[STATUS] = INVALID
            return row
        if is_alloc[row]:
            heap[slot] = allocate(heap, lane[row], size[row])
            if heap[slot] == NONE:
                return row
        else:
            free(heap, heap[slot], size[row])
            heap[slot] = NONE
    heap[ROW] = stop
    return stop


def _make_entry(digest: str) -> Callable[..., int]:
    def advance(
        heap: Heap, is_alloc: npt.NDArray[np.bool_], block: Ints, size: Ints, lane: Ints, stop: int
    ) -> int:
        # The digest is in the condition only to be part of numba's cache key, see `compiled`.
        return advance_rows(heap, is_alloc, block, size, lane, stop) if digest else NONE

    return entry_point(advance)


advance = _make_entry(SOURCE_DIGEST)
"""`advance_rows` as Python calls it: loaded from numba's cache."""
