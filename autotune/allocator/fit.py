"""The smallest memory in which a trace completes, by bisection over the memory limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from autotune.allocator.conditions import Conditions
from autotune.allocator.result import Engine, ReplayResult, fits
from autotune.settings import AllocatorSettings
from autotune.trace.trace import Trace
from autotune.units import MIB

PAGE = 2 * MIB
"""The driver's granularity; limits in between matter to nothing but the moment of garbage collection."""


def smallest_limit(
    engine: Engine, trace: Trace, settings: AllocatorSettings, conditions: Conditions
) -> int | None:
    """A memory limit, a multiple of PAGE, in which the trace completes while in one PAGE less it does not.

    Completing is not monotone: with less memory the allocator releases earlier and may then lay out better,
    so that some smaller limit can happen to suffice as well. The limit is what
    `set_per_process_memory_fraction` sets; expandable segments may exceed it by OVERSHOOT, but not by more,
    as pages of hundreds of MB would. None if the trace does not complete in the whole device.
    """

    def attempt(pages: int | None) -> ReplayResult:
        limited = replace(conditions, memory_limit=None if pages is None else pages * PAGE)
        return limited.replay(engine, trace, settings)

    def completes(pages: int) -> bool:
        found = attempt(pages)
        return fits(found.outcome, found.peak_reserved_bytes, pages * PAGE)

    if not trace.is_alloc.any():
        return 0
    unlimited = attempt(None)
    high = _enough(completes, unlimited.peak_reserved_bytes // PAGE + 1, conditions.device_total // PAGE)
    if high is None:
        return None
    # Only expandable segments can, by less than a page of theirs, hold more than they were allowed.
    low = min(unlimited.peak_requested_bytes // PAGE, high) - 1
    return _bisect(completes, low if low > 0 and not completes(low) else 0, high) * PAGE


def _enough(completes: Callable[[int], bool], guess: int, most: int) -> int | None:
    """Pages that suffice, searched upward in steps of a quarter; None if not even `most` do."""
    pages = min(guess, most)
    while not completes(pages):
        if pages == most:
            return None
        pages = min(pages + pages // 4 + 1, most)
    return pages


def _bisect(completes: Callable[[int], bool], low: int, high: int) -> int:
    """A number that completes and whose predecessor does not; `low` is known not to, `high` known to."""
    while high - low > 1:
        middle = (low + high) // 2
        if completes(middle):
            high = middle
        else:
            low = middle
    return high
