"""check_invariants: what must hold of the model's state between any two operations. Slow; for tests."""

from __future__ import annotations

from itertools import pairwise

from autotune.allocator.model import heap as h
from autotune.allocator.model.rules import DRIVER_GRANULARITY, MIN_BLOCK_SIZE
from autotune.allocator.model.session import ReplaySession


def check_invariants(session: ReplaySession) -> None:
    """Check the whole state of a replay.

    Raises:
        AssertionError: something does not hold; the message says what, and of which block.
    """
    heap = session.heap
    blocks = list(session.blocks())
    for block in blocks:
        _check_block(heap, block)
    unmapped = [int(heap[which + h.UNMAPPED_SET]) for which in session.free_sets()]
    for kind, sets in ((h.FREE, session.free_sets()), (h.UNMAPPED, unmapped)):
        entered = [block for which in sets for block in _check_set(heap, which, kind)]
        expected = [block for block in blocks if heap[block + h.KIND] == kind]
        assert sorted(entered) == sorted(expected), f"sets of kind {kind} hold {entered}, not {expected}"
    _check_room(heap)
    _check_slots(session, blocks)
    _check_sums(session, blocks)


def _check_block(heap: h.Ints, block: int) -> None:
    """A block against its right-hand neighbour."""
    size, kind, following = heap[block + h.SIZE], heap[block + h.KIND], heap[block + h.NEXT]
    assert size >= MIN_BLOCK_SIZE and size % MIN_BLOCK_SIZE == 0, f"block {block} has size {size}"
    if following == h.NONE:
        return
    assert heap[following + h.PREVIOUS] == block, f"block {block} is not its successor's predecessor"
    assert heap[following + h.SET] == heap[block + h.SET], f"block {block} and its successor differ in set"
    assert heap[following + h.ADDRESS] == heap[block + h.ADDRESS] + size, f"gap behind block {block}"
    assert kind == h.LIVE or kind != heap[following + h.KIND], f"block {block} is not merged"


def _check_set(heap: h.Ints, which: int, kind: int) -> list[int]:
    """A set's order and its entries' agreement with their blocks; the blocks."""
    first, count = int(heap[which + h.FIRST]), int(heap[which + h.COUNT])
    entries = heap[first : first + h.ENTRY_FIELDS * count].reshape(-1, h.ENTRY_FIELDS).tolist()
    keys = [(size, order) for size, order, _ in entries]
    assert all(a < b for a, b in pairwise(keys)), f"set {which} is not in order: {keys}"
    for size, order, block in entries:
        expected = (
            (heap[block + h.SIZE], heap[block + h.ORDER]) if kind == h.FREE else (0, heap[block + h.ADDRESS])
        )
        assert (size, order) == expected, f"set {which} has {(size, order)}, the block {expected}"
        home = heap[block + h.SET]
        home = home if kind == h.FREE else heap[home + h.UNMAPPED_SET]
        assert home == which, f"block {block} is in set {which}, not in {home}"
    return [block for _, _, block in entries]


def _check_room(heap: h.Ints) -> None:
    """No part of the heap has grown into the next; the compiled code does not look."""
    first, end = int(heap[h.SETS]), int(heap[h.SLOTS])
    begins = heap[first + h.FIRST : end : h.SET_FIELDS].tolist()
    counts = heap[first + h.COUNT : end : h.SET_FIELDS].tolist()
    for begin, count, limit in zip(begins, counts, [*begins[1:], heap[h.BLOCKS]], strict=True):
        assert begin + h.ENTRY_FIELDS * count <= limit, f"the set at {begin} has outgrown its room"
    assert heap[h.BLOCKS_END] <= len(heap), "there are more blocks than room for them"


def _check_slots(session: ReplaySession, blocks: list[int]) -> None:
    """Every live block serves exactly one block of the trace."""
    serving = [int(block) for block in session.slots if block != h.NONE]
    live = [block for block in blocks if session.heap[block + h.KIND] == h.LIVE]
    assert sorted(serving) == sorted(live), f"live blocks are {live}, the trace's are {serving}"


def _check_sums(session: ReplaySession, blocks: list[int]) -> None:
    """The counters against the blocks."""
    heap = session.heap
    sums = dict.fromkeys((h.FREE, h.LIVE, h.UNMAPPED), 0)
    for block in blocks:
        sums[int(heap[block + h.KIND])] += int(heap[block + h.SIZE])
    requested = int(session.operations.size_of_block[session.slots != h.NONE].sum())
    assert heap[h.ALLOCATED] == sums[h.LIVE], f"allocated is {heap[h.ALLOCATED]}, blocks hold {sums[h.LIVE]}"
    assert heap[h.REQUESTED] == requested, f"requested is {heap[h.REQUESTED]}, blocks were asked {requested}"
    reserved = sums[h.LIVE] + sums[h.FREE]
    assert heap[h.RESERVED] == reserved, f"reserved is {heap[h.RESERVED]}, segments hold {reserved}"
    assert reserved <= heap[h.DEVICE_USED] <= heap[h.DEVICE_TOTAL], "more memory is used than there is"
    assert heap[h.DEVICE_USED] % DRIVER_GRANULARITY == 0 or heap[h.EXPANDABLE], "driver memory in odd pieces"
    for now, peak in ((h.ALLOCATED, h.PEAK_ALLOCATED), (h.RESERVED, h.PEAK_RESERVED)):
        assert heap[now] <= heap[peak], "a peak is below the present"
