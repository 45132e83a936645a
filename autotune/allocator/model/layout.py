"""Laying out a heap: how large each part can become, and where it begins."""

from __future__ import annotations

import numpy as np

from autotune.allocator.model.heap import (
    BLOCK_FIELDS,
    BLOCKS,
    BLOCKS_END,
    CALL_FIELDS,
    CALLS,
    CALLS_END,
    CLOCK,
    CLOCKS,
    COUNT,
    DEFAULT_SETS_END,
    DIVISIONS,
    ENTRY_FIELDS,
    FIRST,
    HALT_AT_RESERVED,
    IS_LARGE,
    NONE,
    NUM_RULES,
    PAGE_SIZE,
    POOL,
    SET_FIELDS,
    SETS,
    SETS_END,
    SLOTS,
    UNMAPPED_SET,
    UNUSED_BLOCK,
    Ints,
)
from autotune.allocator.model.operations import Lane, Operations
from autotune.allocator.model.rules import DRIVER_GRANULARITY, SMALL_BUFFER, UNLIMITED, Rules

CACHE_LINE = BLOCK_FIELDS


def new_heap(operations: Operations, rules: Rules, divisions: tuple[int, ...], max_calls: int) -> Ints:
    """A heap in which nothing is allocated.

    Most of it is never touched, so that the system never backs it with memory: sizes are upper bounds.

    Args:
        operations: what will be replayed.
        rules: the rules of the replay.
        divisions: (16,) as `AllocatorSettings.roundup_divisions` gives them.
        max_calls: driver calls to keep.
    """
    lanes, num_pools = operations.lanes, 1 + max((lane.pool for lane in operations.lanes), default=0)
    free = [_most_free(operations, rules, lane) for lane in lanes]
    live = [min(operations.peak_live, lane.num_allocs) for lane in lanes]
    unmapped = [most + alive if rules.expandable else 0 for most, alive in zip(free, live, strict=True)]
    capacities = np.repeat([*free, *unmapped], 2)

    sets = CLOCKS + 2 * num_pools
    slots = sets + SET_FIELDS * len(capacities)
    calls = slots + operations.num_blocks
    entries = calls + CALL_FIELDS * max_calls
    ends = entries + ENTRY_FIELDS * np.cumsum([0, *capacities])
    blocks = int(ends[-1])
    num_blocks = int(capacities.sum()) + operations.peak_live + 1
    heap = np.empty(blocks + BLOCK_FIELDS * num_blocks + CACHE_LINE, np.int64)

    heap[:sets] = 0
    heap[:NUM_RULES] = rules
    heap[DIVISIONS:CLOCKS] = divisions
    num_default = sum(lane.pool == 0 for lane in lanes)
    heap[SETS], heap[DEFAULT_SETS_END] = sets, sets + 2 * SET_FIELDS * num_default
    heap[SETS_END] = sets + 2 * SET_FIELDS * len(lanes)
    heap[SLOTS], heap[slots:calls] = slots, NONE
    heap[CALLS], heap[CALLS_END] = calls, entries
    heap[BLOCKS] = heap[BLOCKS_END] = blocks + -(heap.ctypes.data // 8 + blocks) % CACHE_LINE
    heap[UNUSED_BLOCK] = NONE
    heap[HALT_AT_RESERVED] = UNLIMITED
    _write_sets(heap, rules, lanes, ends)
    return heap


def _most_free(operations: Operations, rules: Rules, lane: Lane) -> int:
    """More free blocks than one set of a lane can hold at any time.

    Between two neighbouring free blocks there is a live block, or a border of segments, or (in an expandable
    segment) a page at least; and an operation adds no more than three.
    """
    segments = min(rules.device_total // DRIVER_GRANULARITY, 3 * lane.num_rows)
    return 2 * min(operations.peak_live, lane.num_allocs) + segments + 8


def _write_sets(heap: Ints, rules: Rules, lanes: tuple[Lane, ...], ends: Ints) -> None:
    """Write the records of the sets, all empty: two a lane for free blocks, then two for unmapped ones."""
    first = int(heap[SETS])
    for index in range(4 * len(lanes)):
        record = heap[first + SET_FIELDS * index :]
        lane, is_large = index // 2 % len(lanes), index % 2
        record[FIRST] = ends[index]
        record[COUNT] = 0
        record[IS_LARGE] = is_large
        record[POOL] = lanes[lane].pool
        record[CLOCK] = CLOCKS + 2 * lanes[lane].pool + is_large
        record[PAGE_SIZE] = rules.large_segment if is_large else SMALL_BUFFER
        record[UNMAPPED_SET] = heap[SETS_END] + SET_FIELDS * (2 * lane + is_large)
