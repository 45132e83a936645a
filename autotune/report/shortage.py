"""Where nothing fits: in how much memory it would, by replaying the trace with more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autotune import allocator
from autotune.allocator.conditions import Conditions
from autotune.settings import AllocatorSettings
from autotune.trace import Trace

MOST_OPERATIONS = 100_000_000
"""Replayed for one answer, on two cores in some ten seconds."""
REPLAYS_FOR_A_FIT = 25
FEWEST_SETTINGS = 2
"""The defaults and expandable segments are looked at in any case."""
AMPLE_BYTES = 1 << 44
"""More than any GPU has: what would fit on a larger one is part of the answer."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """The smallest memory in which the program completes under some settings."""

    settings: str
    smallest_fit_bytes: int


@dataclass(frozen=True, kw_only=True)
class Shortage:
    """How far a memory limit is from what is needed."""

    live_bytes: int
    """Peak of the bytes requested: in less than that nothing fits."""
    memory_limit_bytes: int | None
    """None where the GPU itself is the limit."""
    fits: tuple[Fit, ...]
    """Of the settings looked at, ascending; by replay."""
    cut_short: bool
    """Whether the recorded run itself ran out of memory, so that the whole needs more."""

    def to_json(self) -> dict[str, Any]:
        """The JSON document."""
        return asdict(self)


def shortage(trace: Trace, tried: Sequence[str], conditions: Conditions) -> Shortage:
    """The smallest memory for the defaults, expandable segments and as many of those tried as time allows.

    Args:
        trace: of the program.
        tried: settings of the study's trials, the most telling first.
        conditions: of the study.
    """
    affordable = MOST_OPERATIONS // (REPLAYS_FOR_A_FIT * max(trace.num_operations, 1))
    asked = list(dict.fromkeys(tried))[: max(FEWEST_SETTINGS, affordable)]
    found = allocator.smallest_fit_many(
        trace,
        [AllocatorSettings.parse(text) for text in asked],
        device_total=AMPLE_BYTES,
        torch_version=conditions.torch_version,
    )
    fits = [
        Fit(settings=text, smallest_fit_bytes=size)
        for text, size in zip(asked, found, strict=True)
        if size is not None
    ]
    return Shortage(
        live_bytes=trace.peak_requested_bytes,
        memory_limit_bytes=conditions.memory_limit,
        fits=tuple(sorted(fits, key=lambda one: one.smallest_fit_bytes)),
        cut_short=trace.oom_size is not None,
    )
