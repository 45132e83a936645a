"""The heap: the whole state of the modelled allocator in one array of int64.

A block, a set of free blocks and a lookup clock are records in it, and a reference is the index at which
the record begins: `heap[block + SIZE]`. One array travels through the compiled functions in registers,
where a struct of arrays would be copied onto the stack at every call.

    header      the rules, then the counters
    divisions   16 numbers, for rounding
    clocks      2 a memory pool: lookups in its small and in its large blocks
    sets        2 a lane (small, large) of free blocks, default pool first; then as many of unmapped blocks
    slots       1 a block of the trace: the block that serves it
    calls       4 a driver call: row, kind, bytes, pages
    entries     3 a member of a set: size, order, block
    blocks      8 a block

A *lane* is a pair of memory pool and stream that occurs in the trace: free blocks never change lanes.
"""

from __future__ import annotations

from typing import Protocol, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class Heap(Protocol):
    """The array as the compiled functions use it; numpy's own type does not say that an element is an int."""

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Ints: ...
    def __setitem__(self, index: SupportsIndex, value: int) -> None: ...


NONE = -1

# The rules, in the order of `rules.Rules`.
(
    EXPANDABLE,
    MAX_SPLIT_SIZE,
    MAX_NON_SPLIT_ROUNDING,
    LARGE_SEGMENT,
    ROUNDS_UP,
    ALLOWED,
    COLLECTS,
    COLLECT_ABOVE,
    DEVICE_TOTAL,
    ADDRESS_SPACE,
    NEWEST_FIRST,
    BY_SERIAL,
    REJECT_ABOVE,
    PRIVATE_RETRY,
    NUM_RULES,
) = range(15)

# The counters.
(
    ALLOCATED,
    PEAK_ALLOCATED,
    REQUESTED,
    PEAK_REQUESTED,
    RESERVED,
    PEAK_RESERVED,
    PEAK_RESERVED_ROW,
    DEVICE_USED,
    NUM_DEVICE_ALLOC,
    NUM_DEVICE_FREE,
    NUM_RETRIES,
    NUM_CALLS,
    ROW,
    STATUS,
    HALT_AT_RESERVED,
    UNUSED_BLOCK,
    BLOCKS,
    BLOCKS_END,
    FRONTIER,
    SERIAL,
    CALLS,
    CALLS_END,
    SETS,
    DEFAULT_SETS_END,
    SETS_END,
    SLOTS,
    HEADER_END,
) = range(NUM_RULES, NUM_RULES + 27)

DIVISIONS = HEADER_END
CLOCKS = DIVISIONS + 16

RUNNING, OUT_OF_MEMORY, HALTED, INVALID = 0, 1, 2, 3
"""Values of STATUS. INVALID: the row frees what is not live, or allocates what is."""

# Fields of a set.
FIRST, COUNT, IS_LARGE, POOL, CLOCK, PAGE_SIZE, UNMAPPED_SET, SET_FIELDS = range(8)

# Fields of a set's entry, which are sorted by (size, order).
ENTRY_SIZE, ENTRY_ORDER, ENTRY_BLOCK, ENTRY_FIELDS = range(4)

# Fields of a driver call.
CALL_ROW, CALL_KIND, CALL_SIZE, CALL_PAGES, CALL_FIELDS = range(5)

# Fields of a block: eight, so that a block fills one cache line.
SIZE, ADDRESS, ORDER, PREVIOUS, NEXT, KIND, SET, FREED_AT, BLOCK_FIELDS = range(9)

FREE, LIVE, UNMAPPED, UNUSED = 0, 1, 2, 3
"""Values of KIND. NEXT of an UNUSED record leads to the next such record."""
