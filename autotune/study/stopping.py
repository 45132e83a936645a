"""When a measured study has nothing left to find.

The rule: stop when no untested behaviour of the screening would, by prediction, improve the front by more
than the noise. It would, if no measured row matches it: a row that needs at most as much memory and at most
as much time, each but for the noise. Fragmentation does not count, as at equal peak reserved it says only how
much of it is rounding.

Noise of memory: 0.5 % or one page of 2 MiB, whichever is more. Noise of time: how far apart repetitions of
the defaults are; while there is only one, the spread of its steps (their median absolute deviation, scaled to
a standard deviation). In either case at least 1 %. A trace that failed its self-check predicts nothing, and
stops nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from autotune.measurement import Obtained
from autotune.report.noise import deviation, spread
from autotune.report.pick import Point, point
from autotune.report.stored import Row
from autotune.study.guide import Guide
from autotune.units import MIB

MEMORY_SHARE, MEMORY_BYTES = 0.005, 2 * MIB
LEAST_TIME_SHARE = 0.01


def nothing_to_gain(rows: Sequence[Row], guide: Guide) -> bool:
    """Whether every behaviour that the screening kept is measured, or matched by a measured row."""
    measured = [found for row in rows if (found := point(row)) is not None]
    noise = time_noise(rows)
    if not guide.trusted or not measured or noise is None:
        return False
    expected = [guide.expected(found, rows, Obtained.MEASURED) for found in guide.untested(rows)]
    return all(
        one is not None and any(matches(row, one, time_share=noise) for row in measured) for one in expected
    )


def matches(row: Point, predicted: Point, *, time_share: float) -> bool:
    """Whether a measured row is as good as a prediction, but for the noise."""
    memory = predicted[0] + max(MEMORY_SHARE * predicted[0], MEMORY_BYTES)
    return row[0] <= memory and row[2] <= predicted[2] * (1 + time_share)


def time_noise(rows: Sequence[Row]) -> float | None:
    """Noise of step time as a share of it; None while the defaults were not measured."""
    defaults = [row for row in rows if row.settings == "" and point(row) is not None]
    if not defaults:
        return None
    medians = [row.measurement.median_step_seconds or 0.0 for row in defaults]
    middle = statistics.median(medians)
    if middle <= 0:
        return LEAST_TIME_SHARE
    within_one = deviation(defaults[0].measurement.step_seconds) / middle
    return max(spread(medians) if len(medians) > 1 else within_one, LEAST_TIME_SHARE)
