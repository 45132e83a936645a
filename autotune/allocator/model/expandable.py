"""Expandable segments: ranges of addresses into which pages of device memory are mapped when needed."""

from __future__ import annotations

from autotune.allocator.model.blocks import (
    drop_block,
    insert_free,
    insert_unmapped,
    link,
    merge,
    move_start,
    new_block,
    remove_free,
    remove_unmapped,
)
from autotune.allocator.model.compiled import compiled
from autotune.allocator.model.heap import (
    ADDRESS,
    ADDRESS_SPACE,
    DEVICE_TOTAL,
    DEVICE_USED,
    ENTRY_BLOCK,
    ENTRY_FIELDS,
    FIRST,
    FREE,
    KIND,
    LIVE,
    NEXT,
    NONE,
    PAGE_SIZE,
    PREVIOUS,
    SET,
    SIZE,
    UNMAPPED,
    UNMAPPED_SET,
    Heap,
)
from autotune.allocator.model.ordered import end_of
from autotune.allocator.model.rounding import round_up
from autotune.allocator.model.segments import (
    MAP_CALL,
    UNMAP_CALL,
    count_released,
    count_reserved,
    reserve_addresses,
)


@compiled
def map_for(heap: Heap, free_set: int, size: int) -> int:
    """A FREE block of at least `size`, taken out of its set, or NONE if the device is full.

    PyTorch's `try_allocate_expandable_block`. What was mapped before a failure stays mapped.
    """
    block = find_room(heap, free_set, size)
    if heap[block + KIND] == UNMAPPED and not map_pages(heap, block, min(heap[block + SIZE], size)):
        return NONE
    while heap[block + SIZE] < size:
        following = heap[block + NEXT]
        if following == NONE:  # the request exceeds the address space of a segment
            return NONE
        missing = size - heap[block + SIZE]
        if not map_pages(heap, following, min(missing, heap[following + SIZE])):
            return NONE
        block = following
    remove_free(heap, block)
    return block


@compiled
def find_room(heap: Heap, free_set: int, size: int) -> int:
    """Where mapping begins: the first unmapped block in order of address, or the free block before it."""
    unmapped = heap[free_set + UNMAPPED_SET]
    for entry in range(heap[unmapped + FIRST], end_of(heap, unmapped), ENTRY_FIELDS):
        block = heap[entry + ENTRY_BLOCK]
        previous = heap[block + PREVIOUS]
        if previous != NONE and heap[previous + KIND] != LIVE:
            block = previous
        if has_room(heap, block, size):
            return block
    return new_segment(heap, free_set)


@compiled
def has_room(heap: Heap, block: int, size: int) -> bool:
    """Whether free and unmapped blocks from here on add up to `size`."""
    while size > 0 and block != NONE and heap[block + KIND] != LIVE:
        size -= heap[block + SIZE]
        block = heap[block + NEXT]
    return size <= 0


@compiled
def new_segment(heap: Heap, free_set: int) -> int:
    """A segment with nothing mapped: one UNMAPPED block."""
    page = heap[free_set + PAGE_SIZE]
    size = round_up(heap[ADDRESS_SPACE], page)
    block = new_block(heap, free_set, UNMAPPED, reserve_addresses(heap, size, page), size)
    insert_unmapped(heap, block)
    return block


@compiled
def map_pages(heap: Heap, block: int, size: int) -> bool:
    """Map whole pages from the start of an UNMAPPED block, at least `size`; False if the device is full."""
    free_set = heap[block + SET]
    page = heap[free_set + PAGE_SIZE]
    mapped = round_up(size, page)
    if heap[DEVICE_USED] + mapped > heap[DEVICE_TOTAL]:
        return False
    remove_unmapped(heap, block)
    heap[block + KIND] = FREE
    rest = heap[block + SIZE] - mapped
    if rest > 0:
        tail = new_block(heap, free_set, UNMAPPED, heap[block + ADDRESS] + mapped, rest)
        link(heap, tail, heap[block + NEXT])
        link(heap, block, tail)
        insert_unmapped(heap, tail)
        heap[block + SIZE] = mapped
    merge(heap, block, heap[block + PREVIOUS])
    merge(heap, block, heap[block + NEXT])
    insert_free(heap, block)
    heap[DEVICE_USED] += mapped
    count_reserved(heap, MAP_CALL, mapped, mapped // page)
    return True


@compiled
def unmap_pages(heap: Heap, block: int) -> None:
    """Unmap the whole pages inside a FREE block; what is left of it on either side stays free."""
    free_set = heap[block + SET]
    page = heap[free_set + PAGE_SIZE]
    start, end = heap[block + ADDRESS], heap[block + ADDRESS] + heap[block + SIZE]
    first, last = round_up(start, page), end // page * page
    if first >= last:
        return
    remove_free(heap, block)
    if first > start:
        piece = new_block(heap, free_set, FREE, start, first - start)
        link(heap, heap[block + PREVIOUS], piece)
        link(heap, piece, block)
        insert_free(heap, piece)
    if last < end:
        piece = new_block(heap, free_set, FREE, last, end - last)
        link(heap, piece, heap[block + NEXT])
        link(heap, block, piece)
        insert_free(heap, piece)
    move_start(heap, block, first)
    heap[block + SIZE] = last - first
    heap[block + KIND] = UNMAPPED
    merge(heap, block, heap[block + PREVIOUS])
    merge(heap, block, heap[block + NEXT])
    insert_unmapped(heap, block)
    heap[DEVICE_USED] -= last - first
    count_released(heap, UNMAP_CALL, last - first, (last - first) // page)


@compiled
def unmap_all(heap: Heap, free_set: int) -> None:
    """Unmap what is free in the segments of a set, and drop the segments in which nothing is left."""
    entries = heap[heap[free_set + FIRST] : end_of(heap, free_set)].copy()  # unmapping changes the set
    for index in range(ENTRY_BLOCK, len(entries), ENTRY_FIELDS):
        block = entries[index]
        unmap_pages(heap, block)
        if heap[block + PREVIOUS] == NONE and heap[block + NEXT] == NONE:
            remove_unmapped(heap, block)
            drop_block(heap, block)
