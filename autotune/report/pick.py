"""Choosing one row of a study: the rules behind `recommended` and behind `export --pick`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from autotune.measurement import Measurement, Obtained
from autotune.metrics import objectives
from autotune.report.noise import deviation
from autotune.report.stored import Row
from autotune.settings import simplicity

SLOWER_TOLERATED = 0.02
"""A third objective this much above the reference's still counts as equally fast."""
WORTHWHILE_SAVING = 0.01
"""Peak reserved must fall by at least this share before settings are preferred to the defaults."""

NO_DIFFERENCE = 0.005
"""Peak reserved this much above another's, as a share of it, does not outweigh a shorter string."""

Point = tuple[float, float, float]


def point(row: Row) -> Point | None:
    """The row's three objectives in bytes, share and seconds; None unless it completed with all of them."""
    if not row.completed:
        return None
    measurement = row.measurement
    values = [metric.value(measurement) for metric in objectives(measurement.obtained)]
    if any(value is None or not math.isfinite(value) for value in values):
        return None
    memory, fragmentation, seconds = values
    assert memory is not None and fragmentation is not None and seconds is not None
    return float(memory), float(fragmentation), float(seconds)


def noise_of_median(measurement: Measurement) -> float:
    """Relative standard error of the median step time, from the median absolute deviation; 0 for one step."""
    times = measurement.step_seconds
    if len(times) < 2:
        return 0.0
    middle = statistics.median(times)
    return 1.2533 * deviation(times) / math.sqrt(len(times)) / middle if middle > 0 else 0.0


def memory_pick(rows: Sequence[Row]) -> Row | None:
    """The smallest peak reserved; among equals the fastest, then the earliest."""
    usable = _usable(rows)
    return min(usable, key=lambda row: (*_ordered(row, 0, 2), row.number), default=None)


def speed_pick(rows: Sequence[Row]) -> Row | None:
    """The smallest third objective; among equals the least memory, then the earliest."""
    usable = _usable(rows)
    return min(usable, key=lambda row: (*_ordered(row, 2, 0), row.number), default=None)


def balanced_pick(
    rows: Sequence[Row],
    baseline: Row | None,
    *,
    recorded_seconds: float | None = None,
    noise: float = 0.0,
) -> Row | None:
    """The recommendation: what memory can be saved without paying for it in time.

    1. Of the rows that are as fast as the defaults (`allowed_seconds`), the one with the smallest peak
       reserved, if that saves at least 1 % of the defaults' memory. Another that needs hardly more, less than
       1 % of the defaults' memory, takes its place where it is faster by more than what counts as equal. Of
       those as fast as the choice and within 0.5 % of its memory, the simplest settings stand for it.
    2. Else, of the rows that save at least 1 %, the one with the smallest product of memory and time
       relative to the defaults, if that product is below one: a saving larger than its price.
    3. Else the defaults.

    The answer never needs more memory than the defaults. Where the defaults ran out of memory, the fastest
    row that completed takes their place in rule 1, and its own memory is the yardstick.

    Args:
        rows: the study's rows.
        baseline: the defaults' row.
        recorded_seconds: length of the recorded run; where step time is not measured, driver calls that
            add up to 2 % of it count as free.
        noise: how far apart the step times of equal runs are, as a share.
    """
    reference = baseline if baseline is not None and point(baseline) else speed_pick(rows)
    if reference is None:
        return None
    memory, _, seconds = _must(reference)
    allowed = allowed_seconds(reference, recorded_seconds, noise)
    saving = [row for row in _usable(rows) if _must(row)[0] <= memory * (1 - WORTHWHILE_SAVING)]
    as_fast = [row for row in saving if _must(row)[2] <= allowed]
    if as_fast:
        margin = memory * WORTHWHILE_SAVING
        best = _quickest_of_the_smallest(as_fast, margin=margin, recorded=recorded_seconds, noise=noise)
        return best and _simplest_like(best, as_fast, recorded=recorded_seconds, noise=noise)
    if not saving:
        return reference
    worth = min(saving, key=lambda row: (_price(row, memory, seconds), row.number))
    return worth if _price(worth, memory, seconds) < 1 else reference


def _quickest_of_the_smallest(
    rows: Sequence[Row], *, margin: float, recorded: float | None, noise: float
) -> Row | None:
    """The smallest peak reserved, unless one within `margin` bytes of it is really faster."""
    smallest = memory_pick(rows)
    quickest = speed_pick([row for row in rows if smallest and _must(row)[0] <= _must(smallest)[0] + margin])
    if smallest is None or quickest is None:
        return None
    return smallest if _must(smallest)[2] <= allowed_seconds(quickest, recorded, noise) else quickest


def _simplest_like(best: Row, rows: Sequence[Row], *, recorded: float | None, noise: float) -> Row:
    """Of the rows that are as good as the best, the one with the least to write down."""
    memory, allowed = _must(best)[0] * (1 + NO_DIFFERENCE), allowed_seconds(best, recorded, noise)
    alike = [row for row in rows if _must(row)[0] <= memory and _must(row)[2] <= allowed]
    return min(
        alike, key=lambda row: (simplicity(row.settings)[0], *_ordered(row, 0, 2), row.number), default=best
    )


def allowed_seconds(reference: Row, recorded_seconds: float | None, noise: float = 0.0) -> float:
    """The third objective up to which a row counts as equally fast as the reference.

    Measured step time: 2 % more, or the largest of twice the standard error of the reference's median and
    `noise`, which is how far apart equal runs were.
    Driver time of a replay: 2 % more, or 2 % of the recorded run more where that is larger.
    """
    seconds = _must(reference)[2]
    measurement = reference.measurement
    if measurement.obtained is Obtained.MEASURED:
        return seconds * (1 + max(SLOWER_TOLERATED, 2 * noise_of_median(measurement), noise))
    return seconds + SLOWER_TOLERATED * max(seconds, recorded_seconds or 0.0)


def _usable(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if point(row) is not None]


def _must(row: Row) -> Point:
    values = point(row)
    assert values is not None
    return values


def _ordered(row: Row, first: int, second: int) -> tuple[float, float]:
    values = _must(row)
    return values[first], values[second]


def _price(row: Row, memory: float, seconds: float) -> float:
    """Memory and time relative to the reference, multiplied; infinite where the reference takes no time."""
    own = _must(row)
    return own[0] / memory * (own[2] / seconds if seconds > 0 else math.inf)
