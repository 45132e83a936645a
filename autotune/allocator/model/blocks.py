"""Blocks: coming into being, being split, merged and set free."""

from __future__ import annotations

from autotune.allocator.model import ordered
from autotune.allocator.model.compiled import compiled
from autotune.allocator.model.heap import (
    ADDRESS,
    BLOCK_FIELDS,
    BLOCKS_END,
    BY_SERIAL,
    CLOCK,
    FREE,
    FREED_AT,
    KIND,
    NEXT,
    NONE,
    ORDER,
    PREVIOUS,
    SERIAL,
    SET,
    SIZE,
    UNMAPPED,
    UNMAPPED_SET,
    UNUSED,
    UNUSED_BLOCK,
    Heap,
)


@compiled
def new_block(heap: Heap, free_set: int, kind: int, address: int, size: int) -> int:
    """A block without neighbours that belongs, but is not yet entered, into a set."""
    block = heap[UNUSED_BLOCK]
    if block != NONE:
        heap[UNUSED_BLOCK] = heap[block + NEXT]
    else:
        block = heap[BLOCKS_END]
        heap[BLOCKS_END] += BLOCK_FIELDS
    heap[SERIAL] += 1
    heap[block + SIZE] = size
    heap[block + ADDRESS] = address
    heap[block + ORDER] = heap[SERIAL] if heap[BY_SERIAL] else address
    heap[block + PREVIOUS] = NONE
    heap[block + NEXT] = NONE
    heap[block + KIND] = kind
    heap[block + SET] = free_set
    return block


@compiled
def drop_block(heap: Heap, block: int) -> None:
    """Give the record back; the block is in no set and no neighbour refers to it."""
    heap[block + KIND] = UNUSED
    heap[block + NEXT] = heap[UNUSED_BLOCK]
    heap[UNUSED_BLOCK] = block


@compiled
def move_start(heap: Heap, block: int, address: int) -> None:
    """Let the block begin elsewhere."""
    heap[block + ADDRESS] = address
    if not heap[BY_SERIAL]:
        heap[block + ORDER] = address


@compiled
def link(heap: Heap, previous: int, following: int) -> None:
    """Make two blocks neighbours; either may be NONE."""
    if previous != NONE:
        heap[previous + NEXT] = following
    if following != NONE:
        heap[following + PREVIOUS] = previous


@compiled
def insert_free(heap: Heap, block: int) -> None:
    """Enter a FREE block into its set; its age counts from here."""
    free_set = heap[block + SET]
    heap[block + FREED_AT] = heap[heap[free_set + CLOCK]]
    ordered.insert(heap, free_set, heap[block + SIZE], heap[block + ORDER], block)


@compiled
def remove_free(heap: Heap, block: int) -> None:
    """Take a FREE block out of its set."""
    ordered.remove(heap, heap[block + SET], heap[block + SIZE], heap[block + ORDER])


@compiled
def insert_unmapped(heap: Heap, block: int) -> None:
    """Enter an UNMAPPED block into its set, which is in order of address."""
    ordered.insert(heap, heap[heap[block + SET] + UNMAPPED_SET], 0, heap[block + ADDRESS], block)


@compiled
def remove_unmapped(heap: Heap, block: int) -> None:
    """Take an UNMAPPED block out of its set."""
    ordered.remove(heap, heap[heap[block + SET] + UNMAPPED_SET], 0, heap[block + ADDRESS])


@compiled
def merge(heap: Heap, block: int, other: int) -> None:
    """Let `block`, which is in no set, take in its neighbour `other` if both are free, or both unmapped."""
    if other == NONE or heap[other + KIND] != heap[block + KIND]:
        return
    if heap[other + KIND] == UNMAPPED:
        remove_unmapped(heap, other)
    else:
        remove_free(heap, other)
    if heap[block + PREVIOUS] == other:
        move_start(heap, block, heap[other + ADDRESS])
        link(heap, heap[other + PREVIOUS], block)
    else:
        link(heap, block, heap[other + NEXT])
    heap[block + SIZE] += heap[other + SIZE]
    drop_block(heap, other)


@compiled
def free_block(heap: Heap, block: int) -> None:
    """Set a LIVE block free, merged with free neighbours."""
    heap[block + KIND] = FREE
    merge(heap, block, heap[block + PREVIOUS])
    merge(heap, block, heap[block + NEXT])
    insert_free(heap, block)


@compiled
def split(heap: Heap, block: int, size: int) -> int:
    """Cut `size` bytes off the front and return them; what remains keeps the record and enters its set."""
    address = heap[block + ADDRESS]
    front = new_block(heap, heap[block + SET], FREE, address, size)
    link(heap, heap[block + PREVIOUS], front)
    link(heap, front, block)
    move_start(heap, block, address + size)
    heap[block + SIZE] -= size
    insert_free(heap, block)
    return front
