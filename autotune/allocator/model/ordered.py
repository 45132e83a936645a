"""The ordered sets: sorted arrays of (size, order, block), one slice of the heap a set.

A binary search and a short move of memory beat any tree here: the free sets of real training runs hold tens
to a few hundred blocks, which stay in the first-level cache.
"""

from __future__ import annotations

import numpy as np

from autotune.allocator.model.compiled import compiled
from autotune.allocator.model.heap import (
    COUNT,
    ENTRY_BLOCK,
    ENTRY_FIELDS,
    ENTRY_ORDER,
    ENTRY_SIZE,
    FIRST,
    Heap,
)

LOWEST_ORDER = -(1 << 63)


@compiled
def end_of(heap: Heap, ordered_set: int) -> int:
    """Where the entries of a set end."""
    return heap[ordered_set + FIRST] + ENTRY_FIELDS * heap[ordered_set + COUNT]


@compiled
def lower_bound(heap: Heap, ordered_set: int, size: int, order: int) -> int:
    """The first entry of a set that is not below (size, order); the set's end if there is none."""
    first, count = heap[ordered_set + FIRST], heap[ordered_set + COUNT]
    while count > 0:
        half = count >> 1
        middle = first + ENTRY_FIELDS * half
        middle_size = heap[middle + ENTRY_SIZE]
        if middle_size < size or (middle_size == size and heap[middle + ENTRY_ORDER] < order):
            first = middle + ENTRY_FIELDS
            count -= half + 1
        else:
            count = half
    return first


@compiled
def move_up(heap: Heap, first: int, end: int) -> None:
    """Move the entries in [first, end) up by one.

    Unsigned counters, because LLVM makes a memmove of this loop only where no index can be negative.
    """
    index = np.uint64(end)
    while index > np.uint64(first):
        index -= np.uint64(1)
        heap[index + np.uint64(ENTRY_FIELDS)] = heap[index]


@compiled
def move_down(heap: Heap, first: int, end: int) -> None:
    """Move as many entries as fit into [first, end) down by one, over the one at `first`."""
    index = np.uint64(first)
    while index < np.uint64(end):
        heap[index] = heap[index + np.uint64(ENTRY_FIELDS)]
        index += np.uint64(1)


@compiled
def insert(heap: Heap, ordered_set: int, size: int, order: int, block: int) -> None:
    """Add an entry that is not yet in the set."""
    entry = lower_bound(heap, ordered_set, size, order)
    move_up(heap, entry, end_of(heap, ordered_set))
    heap[entry + ENTRY_SIZE] = size
    heap[entry + ENTRY_ORDER] = order
    heap[entry + ENTRY_BLOCK] = block
    heap[ordered_set + COUNT] += 1


@compiled
def remove_at(heap: Heap, ordered_set: int, entry: int) -> None:
    """Remove an entry that `lower_bound` returned."""
    heap[ordered_set + COUNT] -= 1
    move_down(heap, entry, end_of(heap, ordered_set))


@compiled
def remove(heap: Heap, ordered_set: int, size: int, order: int) -> None:
    """Remove the entry (size, order), which is in the set."""
    remove_at(heap, ordered_set, lower_bound(heap, ordered_set, size, order))
