"""Where the bytes are at the moment of peak reserved: which are used, which are lost, and what pins them."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from autotune.allocator.conditions import Conditions
from autotune.allocator.result import DeviceCall
from autotune.settings import AllocatorSettings
from autotune.trace.trace import Trace

if TYPE_CHECKING:
    from autotune.allocator.model import BlockView, ReplaySession

Sizes = npt.NDArray[np.int64]

NUM_PINNED_SEGMENTS = 10
"""How many of the segments that lose most are named."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """Reserved bytes of one pool and stream, by use. The five kinds add up to what is reserved."""

    pool: str
    """`small` or `large` for the default pool, `small (private 1)` and so on for others."""
    stream: int
    """Dense index, as in the trace."""
    live_bytes: int = 0
    """Requested and in use."""
    rounding_bytes: int = 0
    """In use, beyond what was requested: rounding, and rests too small to split off."""
    split_remainder_bytes: int = 0
    """Free, in segments that cannot be given back because another block of theirs is live."""
    cached_bytes: int = 0
    """Free, and could be given back: whole segments, or whole pages of expandable segments."""
    page_rounding_bytes: int = 0
    """Free, in pages of expandable segments that are partly in use."""

    @property
    def reserved_bytes(self) -> int:
        """The sum."""
        return sum(getattr(self, kind) for kind in KINDS)


KINDS = ("live_bytes", "rounding_bytes", "split_remainder_bytes", "cached_bytes", "page_rounding_bytes")
"""Fields of a Share that hold bytes, in the order in which they are shown."""


@dataclass(frozen=True, kw_only=True)
class PinnedSegment:
    """A segment that cannot be given back, with the largest block that is live in it."""

    segment_bytes: int
    free_bytes: int
    """What is lost: the segment's split remainders."""
    num_live_blocks: int
    block: int
    """The trace's id of the largest live block."""
    block_bytes: int
    """Its size, rounded."""
    since_operation: int
    """The row that allocated it."""
    pool: str
    stream: int


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The state of the allocator when it had reserved most."""

    settings: AllocatorSettings
    operation: int
    """The row explained: during which the peak was first reached, or the fullest of those that had it."""
    peak_reserved_bytes: int
    shares: tuple[Share, ...]
    """By pool and stream; none is empty."""
    pinned_segments: tuple[PinnedSegment, ...]
    """Those that lose most, largest loss first; expandable segments lose nothing beyond page rounding."""

    def total(self, kind: str) -> int:
        """Bytes of one of KINDS in all pools and streams."""
        return sum(getattr(share, kind) for share in self.shares)

    def to_json(self) -> dict[str, Any]:
        """The explanation as a JSON document."""
        return {
            "settings": str(self.settings),
            "operation": self.operation,
            "peak_reserved_bytes": self.peak_reserved_bytes,
            **{kind: self.total(kind) for kind in KINDS},
            "shares": [{**asdict(share), "reserved_bytes": share.reserved_bytes} for share in self.shares],
            "pinned_segments": [asdict(segment) for segment in self.pinned_segments],
        }


def explain_replay(
    trace: Trace, settings: AllocatorSettings, conditions: Conditions, *, fullest: bool = False
) -> Explanation:
    """Replay up to the peak and look into the model; see `autotune.allocator.explain`."""
    from autotune.allocator.model import ReplaySession, prepare

    operations = prepare(trace)
    whole = ReplaySession(operations, settings, **asdict(conditions))
    whole.advance()
    peak, row = whole.peak_reserved
    if fullest:
        row = _fullest(trace, row, whole)
    partial = ReplaySession(operations, settings, **asdict(conditions))
    # Pages mapped in vain are unmapped again within the operation; then the peak is in its middle.
    partial.halt_at(peak)
    partial.advance(row + 1)
    segments = list(partial.segments())
    return Explanation(
        settings=settings,
        operation=row,
        peak_reserved_bytes=peak,
        shares=_shares(segments, operations.size_of_block),
        pinned_segments=_pinned_segments(segments, trace),
    )


def _fullest(trace: Trace, first: int, replayed: ReplaySession) -> int:
    """The row with most bytes requested, from the first with peak reserved to the next call that frees.

    The first one itself where it frees something, too.
    """
    calls = replayed.device_calls
    frees = calls.operation[np.isin(calls.kind, (DeviceCall.FREE, DeviceCall.UNMAP))]
    later = frees[frees >= first]
    stop = int(later[0]) if len(later) else trace.num_operations
    live = trace.live_bytes[first:stop]
    return first + int(np.argmax(live)) if len(live) else first


def _shares(segments: list[list[BlockView]], requested: Sizes) -> tuple[Share, ...]:
    """Every block's bytes, added up by pool and stream."""
    sums: dict[tuple[int, str], Counter[str]] = {}
    for segment in segments:
        for block in segment:
            of_pool = sums.setdefault((block.stream, _pool_name(block)), Counter())
            if block.is_live:
                of_pool["live_bytes"] += int(requested[block.serves])
                of_pool["rounding_bytes"] += block.size - int(requested[block.serves])
            else:
                returnable = block.returnable_bytes
                of_pool["cached_bytes"] += returnable
                rest = "page_rounding_bytes" if block.expandable else "split_remainder_bytes"
                of_pool[rest] += block.size - returnable
    return tuple(
        Share(pool=pool, stream=stream, **kinds)
        for (stream, pool), kinds in sorted(sums.items())
        if kinds.total()
    )


def _pinned_segments(segments: list[list[BlockView]], trace: Trace) -> tuple[PinnedSegment, ...]:
    """The fixed segments that are partly free, largest loss first."""
    found = []
    for segment in segments:
        live = [block for block in segment if block.is_live]
        free_bytes = sum(block.size for block in segment if not block.is_live)
        if segment[0].expandable or not live or not free_bytes:
            continue
        largest = max(live, key=lambda block: block.size)
        found.append(
            PinnedSegment(
                segment_bytes=sum(block.size for block in segment),
                free_bytes=free_bytes,
                num_live_blocks=len(live),
                block=largest.serves,
                block_bytes=largest.size,
                since_operation=int(np.flatnonzero(trace.block == largest.serves)[0]),
                pool=_pool_name(largest),
                stream=largest.stream,
            )
        )
    found.sort(key=lambda segment: (-segment.free_bytes, segment.since_operation))
    return tuple(found[:NUM_PINNED_SEGMENTS])


def _pool_name(block: BlockView) -> str:
    size = "large" if block.is_large else "small"
    return f"{size} (private {block.pool})" if block.pool else size
