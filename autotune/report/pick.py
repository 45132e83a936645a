"""Choosing one row of a study: the rules behind `recommended` and behind `export --pick`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autotune.report.doubts import retried_steps
from autotune.report.objectives import must, point
from autotune.report.pace import Pace
from autotune.report.stored import Row
from autotune.settings import simplicity

WORTHWHILE_SAVING = 0.01
"""Peak reserved must fall by at least this share before settings are preferred to the defaults."""

NO_DIFFERENCE = 0.005
"""Peak reserved this much above another's, as a share of it, does not outweigh a shorter string."""
ANY_PACE = Pace()


def memory_pick(rows: Sequence[Row]) -> Row | None:
    """The smallest peak reserved; among equals the fastest, then the earliest."""
    usable = _usable(rows)
    return min(usable, key=lambda row: (*_ordered(row, 0, 2), row.number), default=None)


def speed_pick(rows: Sequence[Row]) -> Row | None:
    """The smallest third objective; among equals the least memory, then the earliest."""
    usable = _usable(rows)
    return min(usable, key=lambda row: (*_ordered(row, 2, 0), row.number), default=None)


def balanced_pick(
    rows: Sequence[Row], baseline: Row | None, *, pace: Pace = ANY_PACE, limited: bool = False
) -> Row | None:
    """The recommendation: what memory can be saved without paying for it in time.

    1. Of the rows that are as fast as the defaults (`Pace.as_fast`), the one with the smallest peak reserved,
       if that saves at least 1 % of the defaults' memory. Another that needs hardly more, less than 1 % of
       the defaults' memory, takes its place where it is faster by more than what counts as equal. Of those
       as fast as the choice and within 0.5 % of its memory, the simplest settings stand for it.
    2. Else, of the rows that save at least 1 %, the one with the smallest product of memory and time
       relative to the defaults, if that product is below one: a saving larger than its price.
    3. Else the defaults.

    The answer never needs more memory than the defaults. Where the defaults ran out of memory, the fastest
    row that completed takes their place in rule 1, and its own memory is the yardstick.

    Under a memory limit everything that completes fits, and what is left to ask is how fast: there the choice
    of rule 1 is made among all rows that are as fast as the fastest, without those that take more steps with
    allocation retries to be so; the defaults, if they are one of them and 1 % is not saved.

    Args:
        rows: the study's rows.
        baseline: the defaults' row.
        pace: what counts as equally fast.
        limited: whether there is a memory limit.
    """
    usable = _usable(rows)
    reference = baseline if baseline is not None and point(baseline) else pace.fastest(usable)
    if reference is None:
        return None
    memory, _, seconds = must(reference)
    saving = [row for row in usable if must(row)[0] <= memory * (1 - WORTHWHILE_SAVING)]
    if limited:
        fastest = pace.fastest(usable) or reference
        as_fast = _fewest_retries([row for row in usable if pace.as_fast(row, fastest)])
        if reference in as_fast and not any(row in saving for row in as_fast):
            return reference
    else:
        as_fast = [row for row in saving if pace.as_fast(row, reference)]
    if as_fast:
        best = _quickest_of_the_smallest(as_fast, memory * WORTHWHILE_SAVING, pace)
        return _simplest_like(best, as_fast, pace)
    worth = min(saving, key=lambda row: (_price(row, memory, seconds), row.number), default=reference)
    return worth if _price(worth, memory, seconds) < 1 else reference


def _fewest_retries(rows: Sequence[Row]) -> list[Row]:
    """The rows that seldomest had to give everything cached back; a longer run may do so more often."""
    fewest = min((retried_steps(row.measurement) for row in rows), default=0)
    return [row for row in rows if retried_steps(row.measurement) == fewest]


def _quickest_of_the_smallest(rows: Sequence[Row], margin: float, pace: Pace) -> Row:
    """The smallest peak reserved, unless one within `margin` bytes of it is really faster."""
    smallest = min(rows, key=lambda row: (*_ordered(row, 0, 2), row.number))
    near = [row for row in rows if must(row)[0] <= must(smallest)[0] + margin]
    quickest = min(near, key=lambda row: (*_ordered(row, 2, 0), row.number))
    return smallest if must(smallest)[2] <= pace.allowed(quickest) else quickest


def _simplest_like(best: Row, rows: Sequence[Row], pace: Pace) -> Row:
    """Of the rows that are as good as the best, the one with the least to write down."""
    memory, allowed = must(best)[0] * (1 + NO_DIFFERENCE), pace.allowed(best)
    alike = [row for row in rows if must(row)[0] <= memory and must(row)[2] <= allowed]
    return min(
        alike, key=lambda row: (simplicity(row.settings)[0], *_ordered(row, 0, 2), row.number), default=best
    )


def _usable(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if point(row) is not None]


def _ordered(row: Row, first: int, second: int) -> tuple[float, float]:
    values = must(row)
    return values[first], values[second]


def _price(row: Row, memory: float, seconds: float) -> float:
    """Memory and time relative to the reference, multiplied; infinite where the reference takes no time."""
    own = must(row)
    return own[0] / memory * (own[2] / seconds if seconds > 0 else math.inf)
