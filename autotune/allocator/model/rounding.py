"""From requested bytes to the size of a block, and from that to the size of a segment."""

from __future__ import annotations

from autotune.allocator.model.compiled import compiled
from autotune.allocator.model.heap import DIVISIONS, LARGE_SEGMENT, ROUNDS_UP, Heap
from autotune.allocator.model.rules import (
    MIN_BLOCK_SIZE,
    MIN_LARGE_ALLOC,
    ROUND_LARGE,
    SMALL_BUFFER,
    SMALL_SIZE,
)


@compiled
def round_up(size: int, multiple: int) -> int:
    """The smallest multiple that is at least `size`; `multiple` is any positive number."""
    return (size + multiple - 1) // multiple * multiple


@compiled
def floor_log2(number: int) -> int:
    """Position of the highest set bit of a positive number."""
    exponent = 0
    for shift in (32, 16, 8, 4, 2, 1):
        if number >> shift:
            number >>= shift
            exponent += shift
    return exponent


@compiled
def round_size(heap: Heap, requested: int) -> int:
    """Bytes of the block that serves a request."""
    if requested < MIN_BLOCK_SIZE:
        return MIN_BLOCK_SIZE
    if heap[ROUNDS_UP]:
        exponent = floor_log2(requested)
        divisions = heap[DIVISIONS + min(max(exponent - 20, 0), 15)]
        if divisions > 1 and requested > MIN_BLOCK_SIZE * divisions:
            step = (1 << exponent) // divisions  # the power of two below, in equal steps
            return (requested + (step - 1)) & -step
    return (requested + (MIN_BLOCK_SIZE - 1)) & -MIN_BLOCK_SIZE


@compiled
def segment_size(heap: Heap, size: int) -> int:
    """Bytes to ask of the driver for a block of `size`."""
    if size <= SMALL_SIZE:
        return SMALL_BUFFER
    if size < MIN_LARGE_ALLOC:
        return heap[LARGE_SEGMENT]
    return (size + (ROUND_LARGE - 1)) & -ROUND_LARGE
