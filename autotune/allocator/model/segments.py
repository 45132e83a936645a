"""Segments of fixed size: asked of the driver and given back to it (cudaMalloc and cudaFree)."""

from __future__ import annotations

from autotune.allocator.model.blocks import drop_block, new_block, remove_free
from autotune.allocator.model.compiled import compiled
from autotune.allocator.model.heap import (
    CALL_FIELDS,
    CALL_KIND,
    CALL_PAGES,
    CALL_ROW,
    CALL_SIZE,
    CALLS,
    CALLS_END,
    DEVICE_TOTAL,
    DEVICE_USED,
    FREE,
    FRONTIER,
    NEWEST_FIRST,
    NONE,
    NUM_CALLS,
    NUM_DEVICE_ALLOC,
    NUM_DEVICE_FREE,
    PEAK_RESERVED,
    PEAK_RESERVED_ROW,
    RESERVED,
    ROW,
    SIZE,
    Heap,
)
from autotune.allocator.model.rounding import round_up
from autotune.allocator.model.rules import DRIVER_GRANULARITY

ALLOC_CALL, FREE_CALL, MAP_CALL, UNMAP_CALL = 0, 1, 2, 3
"""The values of `DeviceCall`."""


@compiled
def record_call(heap: Heap, kind: int, size: int, pages: int) -> None:
    """Note a driver call; when there is no room for more they are only counted."""
    call = heap[CALLS] + CALL_FIELDS * heap[NUM_CALLS]
    if call < heap[CALLS_END]:
        heap[call + CALL_ROW] = heap[ROW]
        heap[call + CALL_KIND] = kind
        heap[call + CALL_SIZE] = size
        heap[call + CALL_PAGES] = pages
    heap[NUM_CALLS] += 1


@compiled
def count_reserved(heap: Heap, kind: int, size: int, pages: int) -> None:
    """Account for memory that the driver has handed out."""
    heap[NUM_DEVICE_ALLOC] += 1
    heap[RESERVED] += size
    if heap[RESERVED] > heap[PEAK_RESERVED]:
        heap[PEAK_RESERVED] = heap[RESERVED]
        heap[PEAK_RESERVED_ROW] = heap[ROW]
    record_call(heap, kind, size, pages)


@compiled
def count_released(heap: Heap, kind: int, size: int, pages: int) -> None:
    """Account for memory that the driver has taken back."""
    heap[NUM_DEVICE_FREE] += 1
    heap[RESERVED] -= size
    record_call(heap, kind, size, pages)


@compiled
def reserve_addresses(heap: Heap, size: int, alignment: int) -> int:
    """Where a new segment begins.

    Up to torch 2.11 the lowest address wins among free blocks of equal size. On an NVIDIA H200 two of three
    new segments lie below the one before, so here all do; expandable segments lie above, here as there.
    Later releases number the segments and prefer the oldest, which ascending addresses express as well.
    """
    if heap[NEWEST_FIRST]:
        address = (heap[FRONTIER] - size) // alignment * alignment
        heap[FRONTIER] = address
    else:
        address = round_up(heap[FRONTIER], alignment)
        heap[FRONTIER] = address + size
    return address


@compiled
def allocate_segment(heap: Heap, free_set: int, size: int) -> int:
    """A new segment as one FREE block that is in no set, or NONE if the device is full."""
    on_device = round_up(size, DRIVER_GRANULARITY)
    if heap[DEVICE_USED] + on_device > heap[DEVICE_TOTAL]:
        return NONE
    heap[DEVICE_USED] += on_device
    count_reserved(heap, ALLOC_CALL, size, 1)
    return new_block(heap, free_set, FREE, reserve_addresses(heap, size, DRIVER_GRANULARITY), size)


@compiled
def release_segment(heap: Heap, block: int) -> None:
    """Give a segment back that is one FREE block (PyTorch's `release_block`)."""
    size = heap[block + SIZE]
    remove_free(heap, block)
    drop_block(heap, block)
    heap[DEVICE_USED] -= round_up(size, DRIVER_GRANULARITY)
    count_released(heap, FREE_CALL, size, 1)
