"""Serving a request from the free blocks: best fit, and whether the rest is split off."""

from __future__ import annotations

from autotune.allocator.model import ordered
from autotune.allocator.model.compiled import compiled
from autotune.allocator.model.heap import (
    CLOCK,
    COLLECTS,
    ENTRY_BLOCK,
    ENTRY_FIELDS,
    ENTRY_SIZE,
    EXPANDABLE,
    IS_LARGE,
    KIND,
    MAX_NON_SPLIT_ROUNDING,
    MAX_SPLIT_SIZE,
    NEXT,
    NONE,
    SIZE,
    UNMAPPED,
    Heap,
)
from autotune.allocator.model.rules import MIN_BLOCK_SIZE, SMALL_SIZE


@compiled
def take_free(heap: Heap, free_set: int, size: int) -> int:
    """Take the best fitting free block of a set, or return NONE (PyTorch's `get_free_block`)."""
    if heap[COLLECTS]:
        heap[heap[free_set + CLOCK]] += 1
    entry = ordered.lower_bound(heap, free_set, size, ordered.LOWEST_ORDER)
    if entry == ordered.end_of(heap, free_set):
        return NONE
    if heap[EXPANDABLE]:
        entry = prefer_less_room(heap, free_set, entry)
    found = heap[entry + ENTRY_SIZE]
    if size < heap[MAX_SPLIT_SIZE]:
        if found >= heap[MAX_SPLIT_SIZE]:
            return NONE
    elif found >= size + heap[MAX_NON_SPLIT_ROUNDING]:
        return NONE
    block = heap[entry + ENTRY_BLOCK]
    ordered.remove_at(heap, free_set, entry)
    return block


@compiled
def prefer_less_room(heap: Heap, free_set: int, entry: int) -> int:
    """Pass over blocks that could grow into unmapped space as long as the next larger one has less room."""
    least, end = room(heap, heap[entry + ENTRY_BLOCK]), ordered.end_of(heap, free_set)
    for following in range(entry + ENTRY_FIELDS, end, ENTRY_FIELDS):
        other = room(heap, heap[following + ENTRY_BLOCK])
        if other >= least:
            break
        entry, least = following, other
    return entry


@compiled
def room(heap: Heap, block: int) -> int:
    """Bytes of a free block and of the unmapped space behind it."""
    following = heap[block + NEXT]
    if following != NONE and heap[following + KIND] == UNMAPPED:
        return heap[block + SIZE] + heap[following + SIZE]
    return heap[block + SIZE]


@compiled
def should_split(heap: Heap, free_set: int, block: int, size: int) -> bool:
    """Whether what remains of a block is worth a block of its own."""
    remaining = heap[block + SIZE] - size
    if heap[EXPANDABLE] or not heap[free_set + IS_LARGE]:
        return remaining >= MIN_BLOCK_SIZE
    return size < heap[MAX_SPLIT_SIZE] and remaining > SMALL_SIZE
