"""Operations: a trace made ready for replays under any number of settings."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from autotune.allocator.model.heap import Ints
from autotune.errors import TraceError
from autotune.trace.trace import Trace

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A pair of memory pool and stream that occurs in a trace."""

    pool: int
    stream: int
    num_rows: int
    num_allocs: int


@dataclass(frozen=True, kw_only=True)
class Operations:
    """The columns that a replay reads, in the one layout that the model is compiled for."""

    is_alloc: npt.NDArray[np.bool_]
    block: Ints
    size: Ints
    lane: Ints
    """(n,) index into `lanes`."""
    lanes: tuple[Lane, ...]
    num_blocks: int
    peak_live: int
    """Most blocks alive at one time, in all lanes together."""

    @property
    def size_of_block(self) -> Ints:
        """(num_blocks,) bytes requested for each block."""
        sizes = np.zeros(self.num_blocks, np.int64)
        sizes[self.block] = self.size
        return sizes

    @property
    def columns(self) -> tuple[npt.NDArray[np.bool_], Ints, Ints, Ints]:
        """The arrays in the order in which the compiled code takes them."""
        return self.is_alloc, self.block, self.size, self.lane


_prepared: dict[int, Operations] = {}


def prepare(trace: Trace) -> Operations:
    """The operations of a trace, made once for as long as the trace lives.

    Raises:
        TraceError: a row has a negative block, size, stream or pool.
    """
    key = id(trace)  # a trace holds arrays and cannot be hashed
    if key not in _prepared:
        _prepared[key] = _prepare(trace)
        weakref.finalize(trace, _prepared.pop, key, None)
    return _prepared[key]


def _prepare(trace: Trace) -> Operations:
    columns = (trace.block, trace.size, trace.stream, trace.pool)
    if any(len(column) and column.min() < 0 for column in columns):
        raise TraceError("The trace has a row with a negative block, size, stream or pool; record it again.")
    lane, lanes = _lanes(trace)
    live = np.cumsum(np.where(trace.is_alloc, 1, -1))
    return Operations(
        is_alloc=_own(trace.is_alloc, np.bool_),
        block=_own(trace.block, np.int64),
        size=_own(trace.size, np.int64),
        lane=lane,
        lanes=lanes,
        num_blocks=trace.num_blocks,
        peak_live=int(live.max(initial=0)),
    )


def _lanes(trace: Trace) -> tuple[Ints, tuple[Lane, ...]]:
    """The lane of every row, and the lanes."""
    key = trace.pool * trace.num_streams + trace.stream
    rows = np.bincount(key, minlength=1)
    allocs = np.bincount(key[trace.is_alloc], minlength=len(rows))
    used = np.flatnonzero(rows)
    index = np.zeros(len(rows), np.int64)
    index[used] = np.arange(len(used))
    lanes = tuple(
        Lane(
            pool=int(at) // trace.num_streams,
            stream=int(at) % trace.num_streams,
            num_rows=int(rows[at]),
            num_allocs=int(allocs[at]),
        )
        for at in used
    )
    return index[key], lanes


def _own(column: npt.NDArray[Scalar], dtype: type[Scalar]) -> npt.NDArray[Scalar]:
    """The column as the contiguous, writable array for whose type the model is compiled."""
    return np.require(column, dtype, ["C", "W", "A"])
