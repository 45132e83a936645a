"""Giving memory back to the driver: garbage collection, oversize blocks, and everything that is free."""

from __future__ import annotations

from autotune.allocator.model.compiled import compiled
from autotune.allocator.model.expandable import unmap_all
from autotune.allocator.model.heap import (
    CLOCK,
    COLLECT_ABOVE,
    DEFAULT_SETS_END,
    ENTRY_BLOCK,
    ENTRY_FIELDS,
    ENTRY_SIZE,
    EXPANDABLE,
    FIRST,
    FREED_AT,
    MAX_SPLIT_SIZE,
    NEXT,
    NONE,
    PREVIOUS,
    RESERVED,
    SET,
    SET_FIELDS,
    SETS,
    SIZE,
    Heap,
)
from autotune.allocator.model.ordered import LOWEST_ORDER, end_of, lower_bound
from autotune.allocator.model.rules import UNLIMITED
from autotune.allocator.model.segments import release_segment

SMALL_SETS, LARGE_SETS, LANE_FIELDS = 0, SET_FIELDS, 2 * SET_FIELDS
"""A lane is its small set followed by its large set."""


@compiled
def is_whole_segment(heap: Heap, block: int) -> bool:
    """Whether the block has no neighbours."""
    return heap[block + PREVIOUS] == NONE and heap[block + NEXT] == NONE


@compiled
def age(heap: Heap, block: int) -> int:
    """Lookups in the block's pool since it became free."""
    return heap[heap[heap[block + SET] + CLOCK]] - heap[block + FREED_AT]


@compiled
def collect_garbage(heap: Heap) -> None:
    """Release old cached segments of the default pool (PyTorch's `garbage_collect_cached_blocks`).

    Each round releases every segment of at least average age, until enough is reclaimed.
    """
    excess = heap[RESERVED] - heap[COLLECT_ABOVE]
    if heap[EXPANDABLE] or excess <= 0:
        return
    first, end = heap[SETS] + LARGE_SETS, heap[DEFAULT_SETS_END]
    total_age, count = 0, 0
    for free_set in range(first, end, LANE_FIELDS):
        for entry in range(heap[free_set + FIRST], end_of(heap, free_set), ENTRY_FIELDS):
            block = heap[entry + ENTRY_BLOCK]
            if is_whole_segment(heap, block):
                total_age += age(heap, block)
                count += 1
    released = True
    while excess > 0 and released and count > 0:
        released = False
        round_age, round_count = total_age, count
        for free_set in range(first, end, LANE_FIELDS):
            entry = heap[free_set + FIRST]
            while entry < end_of(heap, free_set):
                block = heap[entry + ENTRY_BLOCK]
                if is_whole_segment(heap, block) and age(heap, block) * round_count >= round_age:
                    released = True
                    excess -= heap[block + SIZE]
                    total_age -= age(heap, block)
                    count -= 1
                    release_segment(heap, block)  # the following entry moves up to this place
                else:
                    entry += ENTRY_FIELDS


@compiled
def release_oversize(heap: Heap, free_set: int, size: int) -> bool:
    """Release as few unsplittable blocks as will do (PyTorch's `release_available_cached_blocks`)."""
    if heap[MAX_SPLIT_SIZE] == UNLIMITED or heap[EXPANDABLE]:
        return False
    needed = max(size, heap[MAX_SPLIT_SIZE])
    entry = lower_bound(heap, free_set, needed, LOWEST_ORDER)
    if entry < end_of(heap, free_set):
        release_segment(heap, heap[entry + ENTRY_BLOCK])
        return True
    released = 0
    while released < needed and entry > heap[free_set + FIRST]:
        entry -= ENTRY_FIELDS
        if heap[entry + ENTRY_SIZE] < heap[MAX_SPLIT_SIZE]:
            break
        released += heap[entry + ENTRY_SIZE]
        release_segment(heap, heap[entry + ENTRY_BLOCK])
    return released >= needed


@compiled
def release_cached(heap: Heap) -> None:
    """Give back everything that is free as a whole (PyTorch's `release_cached_blocks`), large blocks first.

    Private pools keep their memory: PyTorch frees it once their graph is gone, which a trace does not say.
    """
    for kind in (LARGE_SETS, SMALL_SETS):
        for free_set in range(heap[SETS] + kind, heap[DEFAULT_SETS_END], LANE_FIELDS):
            if heap[EXPANDABLE]:
                unmap_all(heap, free_set)
            else:
                release_whole_segments(heap, free_set)


@compiled
def release_whole_segments(heap: Heap, free_set: int) -> None:
    """Release every segment of a set that is one free block."""
    entry = heap[free_set + FIRST]
    while entry < end_of(heap, free_set):
        block = heap[entry + ENTRY_BLOCK]
        if is_whole_segment(heap, block):
            release_segment(heap, block)
        else:
            entry += ENTRY_FIELDS
