"""From recorded events to a Trace: match every free with its allocation, and notice what is missing.

An address names a block while the block lives. Sorted by address and time, allocations and frees of one
address must alternate; where they do not, events are missing, and a replay would be a fiction.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from autotune.errors import TraceError
from autotune.trace.trace import Recording, Rows, Trace
from autotune.trace.unpickle import ACTIONS

Unsigned = npt.NDArray[np.uint64]

ALLOC, FREE_COMPLETED, FREE_REQUESTED, SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP, SEGMENT_UNMAP, OOM, OTHER = (
    range(len(ACTIONS))
)
MAX_SIZE = 1 << 50
"""No allocation is a pebibyte."""
MOST_LIVE_BYTES = 1 << 62


@dataclass(frozen=True, kw_only=True)
class Live:
    """Blocks alive before the first event, in the order in which a replay allocates them."""

    addr: Unsigned = field(default_factory=lambda: np.zeros(0, np.uint64))
    size: Unsigned = field(default_factory=lambda: np.zeros(0, np.uint64))
    stream: Unsigned = field(default_factory=lambda: np.zeros(0, np.uint64))
    pool: Unsigned = field(default_factory=lambda: np.zeros(0, np.uint64))


@dataclass(frozen=True, kw_only=True)
class Events:
    """What the allocator recorded, in time order, as columns of equal length."""

    action: npt.NDArray[np.uint8]
    """(n,) index into ACTIONS."""
    addr: Unsigned
    """(n,) address; for an `oom` of a snapshot, the bytes that the device still had."""
    size: Unsigned
    """(n,) bytes: requested for alloc, frees and oom; real for segment events."""
    stream: Unsigned
    """(n,) handle of the stream."""
    pool: Unsigned
    """(n,) number of the memory pool, 0 = default."""
    time_us: Unsigned
    live: Live = field(default_factory=Live)
    reserved_before: int | None = None
    """Bytes reserved before the first event; None where the file does not say."""
    step_ends: tuple[int, ...] = ()
    """Number of events before the end of each step."""

    def __len__(self) -> int:
        return len(self.action)

    def part(self, keep: npt.NDArray[np.bool_]) -> Events:
        """The events where `keep` is True, steps and live blocks as they were."""
        position = np.concatenate(([0], np.cumsum(keep)))
        return replace(
            self,
            action=self.action[keep], addr=self.addr[keep], size=self.size[keep],
            stream=self.stream[keep], pool=self.pool[keep], time_us=self.time_us[keep],
            step_ends=tuple(int(position[end]) for end in self.step_ends),
        )  # fmt: skip


def build_trace(events: Events, recording: Recording, *, partial: bool = False) -> Trace:
    """The Trace of these events.

    Args:
        events: as recorded.
        recording: what is known of the run; `observed` is completed from the events.
        partial: take frees whose allocation is not recorded for frees of blocks alive before the recording.

    Raises:
        TraceError: the events contradict each other, miss their beginning, or hold no allocation.
    """
    num_ooms = int(np.sum(events.action == OOM))
    events, oom_size, notes = _end_at_oom(events)
    observed = {**_observed_segments(events), **_observed_oom(events, oom_size)}
    if num_ooms:
        observed["num_ooms"] = num_ooms
    if oom_size is None and not np.any(events.action == ALLOC) and not len(events.live.addr):
        raise TraceError("has no allocations to replay.")
    freed = FREE_COMPLETED if np.any(events.action == FREE_COMPLETED) else FREE_REQUESTED
    kinds = (ALLOC, freed) if oom_size is None else (ALLOC, freed, OOM)
    moves = events.part(np.isin(events.action, kinds))
    if partial:
        moves = replace(moves, live=_with_unmatched_frees(moves))
    trace = _match(moves)
    _require_sizes_to_add_up(trace)
    observed["peak_requested_bytes"] = _peak_requested(trace, oom_size)
    if trace.num_preexisting:
        notes = (
            *notes,
            f"{trace.num_preexisting:,} blocks were alive before the recording; a replay allocates them "
            "first, and what else the allocator held then is not known.",
        )
        # What the driver did before the recording is not known, a replay does it again.
        observed = {name: value for name, value in observed.items() if not name.startswith("num_device")}
    recording = replace(
        recording,
        observed={**observed, **recording.observed} if not recording.estimated else recording.observed,
        notes=tuple(dict.fromkeys((*recording.notes, *notes))),  # a saved trace may have them already
    )
    return replace(trace, oom_size=oom_size, recording=recording)


def _require_sizes_to_add_up(trace: Trace) -> None:
    """Refuse what no memory holds: sums of bytes are 64-bit numbers, and would wrap around unseen."""
    most = np.cumsum(np.where(trace.is_alloc, trace.size, -trace.size), dtype=np.float64).max(initial=0.0)
    if most >= MOST_LIVE_BYTES:
        raise TraceError("has more bytes alive at once than 64 bits can count.")


def _end_at_oom(events: Events) -> tuple[Events, int | None, tuple[str, ...]]:
    """Cut what follows a fatal out-of-memory error: its size, and notes on others.

    After a fatal one only frees follow (the exception unwinds). A script that allocates again has caught
    it, and goes on; the request that failed was never served and is not replayed.
    """
    ooms = np.flatnonzero(events.action == OOM)
    if not len(ooms):
        return events, None, ()
    fatal = not np.any(events.action[ooms[-1] :] == ALLOC)
    survived = len(ooms) - fatal
    notes: tuple[str, ...] = ()
    if survived:
        notes = (
            f"The recorded program ran out of memory {survived} time{'s' * (survived > 1)} and went on; "
            "a replay leaves those requests out.",
        )
    if not fatal:
        return events, None, notes
    last = int(ooms[-1])
    keep = np.arange(len(events)) <= last
    keep[ooms[:-1]] = False
    return events.part(keep), int(events.size[last]), notes


def _observed_segments(events: Events) -> dict[str, int]:
    """What the recorded allocator took from the driver; empty where segments were not recorded."""
    taken = np.isin(events.action, (SEGMENT_ALLOC, SEGMENT_MAP))
    given = np.isin(events.action, (SEGMENT_FREE, SEGMENT_UNMAP))
    if not np.any(taken) and not events.reserved_before:
        return {}
    change = np.where(taken, 1, np.where(given, -1, 0)) * events.size.astype(np.int64)
    reserved = np.cumsum(change)
    lowest = min(0, int(reserved.min(initial=0)))
    before = -lowest if events.reserved_before is None else events.reserved_before
    return {
        "peak_reserved_bytes": before + max(0, int(reserved.max(initial=0))),
        "reserved_bytes_at_end": before + (int(reserved[-1]) if len(reserved) else 0),
        "num_device_alloc": int(taken.sum()),
        "num_device_free": int(given.sum()),
    }


def _observed_oom(events: Events, oom_size: int | None) -> dict[str, int]:
    """`device_free_bytes_at_oom`: what the driver could still have given when the program ended in an OOM."""
    return {} if oom_size is None else {"device_free_bytes_at_oom": int(events.addr[-1])}


def _peak_requested(trace: Trace, oom_size: int | None) -> int:
    served = slice(None) if oom_size is None else slice(-1)
    change = np.where(trace.is_alloc, trace.size, -trace.size)[served]
    return int(np.cumsum(change).max(initial=0))


def _previous_at_address(addr: Unsigned) -> Rows:
    """For each row, the row before it with the same address; −1 for the first."""
    order = np.argsort(addr, kind="stable")
    previous = np.full(len(addr), -1, np.int64)
    same = addr[order][1:] == addr[order][:-1]
    previous[order[1:][same]] = order[:-1][same]
    return previous


def _with_unmatched_frees(events: Events) -> Live:
    """The live blocks, and those whose only trace is that they were freed; by stream and address."""
    live = events.live
    addr = np.concatenate((live.addr, events.addr))
    first = (
        (_previous_at_address(addr) < 0)[len(live.addr) :] & (events.action != ALLOC) & (events.action != OOM)
    )
    order = np.lexsort((events.addr[first], events.stream[first]))
    return Live(
        addr=np.concatenate((live.addr, events.addr[first][order])),
        size=np.concatenate((live.size, events.size[first][order])),
        stream=np.concatenate((live.stream, events.stream[first][order])),
        pool=np.concatenate((live.pool, events.pool[first][order])),
    )


def _match(events: Events) -> Trace:
    """Rows of allocations, completed frees and a final OOM, with the live blocks in front."""
    live, before = events.live, len(events.live.addr)
    is_alloc = np.concatenate((np.ones(before, bool), np.isin(events.action, (ALLOC, OOM))))
    addr = np.concatenate((live.addr, events.addr))
    if len(events) and events.action[-1] == OOM:
        addr[-1] = np.uint64(0xFFFF_FFFF_FFFF_FFFF)  # it never got one
    previous = _previous_at_address(addr)
    _refuse_contradictions(is_alloc, previous, before)

    owner = np.where(is_alloc, np.arange(len(addr)), previous)
    size = np.concatenate((live.size, events.size))[owner]
    if np.any(size > MAX_SIZE):
        raise TraceError(
            f"has an allocation of {int(size.max())} bytes, which no GPU could serve; it is damaged."
        )
    # allocate(0) never reaches the allocator.
    keep = size > 0
    blocks = np.cumsum(is_alloc & keep) - 1
    time = (
        np.concatenate((np.repeat(events.time_us[:1], before), events.time_us))
        if len(events)
        else np.zeros(before)
    )
    position = np.concatenate(([0], np.cumsum(keep)))
    return Trace(
        is_alloc=is_alloc[keep],
        block=blocks[owner][keep],
        size=size[keep].astype(np.int64),
        stream=_dense(np.concatenate((live.stream, events.stream))[owner][keep]),
        pool=_dense(np.concatenate(([0], np.concatenate((live.pool, events.pool))[owner][keep])))[1:],
        time_us=time[keep].astype(np.int64),
        num_preexisting=int(position[before]),
        step_ends=tuple(int(position[before + end]) for end in events.step_ends),
    )


def _refuse_contradictions(is_alloc: npt.NDArray[np.bool_], previous: Rows, before: int) -> None:
    first = previous < 0
    unmatched = int(np.sum(~is_alloc & first))
    if unmatched:
        raise TraceError(
            f"is cut at its beginning: {unmatched:,} of its frees have no allocation; record from the start "
            "of the program with a larger max_entries, or replay what is left with --partial."
        )
    freed_twice = int(np.sum(~is_alloc & ~first & ~is_alloc[previous]))
    in_use = int(np.sum(is_alloc & ~first & is_alloc[previous]))
    if freed_twice or in_use:
        raise TraceError(
            f"misses events: {freed_twice:,} frees of memory that is free and {in_use:,} allocations at "
            "addresses in use; record again, without skip_actions."
        )


def _dense(values: npt.NDArray[np.generic]) -> Rows:
    """Numbers 0, 1, … in order of first appearance."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    dense: Rows = rank[inverse.reshape(-1)]
    return dense
