"""When a measured study has nothing left to find, and which members of the screening need no trial.

The rule: a trial of an untested member is worth its time if by prediction it would improve the front by more
than the noise. It would, if no measured row matches it: a row that needs at most as much memory and at most
as much time, each but for the noise. When no member is worth a trial, the study stops. Fragmentation does not
count, as at equal peak reserved it says only how much of it is rounding. Under a memory limit everything that
completes fits, and the question is how fast: there a member that would be slower than the fastest row, by
more than the noise and by more than counts as equally fast, is not worth a trial, however little it needs.

A row's time counts as what is predicted for it, unless it was measured further from that than the noise: the
least memory must not look slow, and so not good enough, because of one unlucky run.

Noise of memory: 0.5 % or one page of 2 MiB, whichever is more. Noise of time: how far apart repetitions of
the defaults are; while there is only one, the spread of its steps (their median absolute deviation, scaled to
a standard deviation). In either case at least 1 %. A trace that failed its self-check predicts nothing, and
stops nothing.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from autotune.measurement import Obtained
from autotune.report.noise import deviation, spread
from autotune.report.objectives import Point, point
from autotune.report.pace import SLOWER_TOLERATED
from autotune.report.stored import Role, Row
from autotune.settings import AllocatorSettings
from autotune.study.guide import Guide
from autotune.study.predict import Prediction
from autotune.units import MIB

MEMORY_SHARE, MEMORY_BYTES = 0.005, 2 * MIB
LEAST_TIME_SHARE = 0.01


def nothing_to_gain(rows: Sequence[Row], guide: Guide) -> bool:
    """Whether every behaviour that the screening kept is measured, or matched by a measured row."""
    return guide.trusted and any(point(row) for row in rows) and not worth_a_trial(rows, guide)


def worth_a_trial(rows: Sequence[Row], guide: Guide) -> list[Prediction]:
    """The untested members that no measured row matches, in their order; all while nothing can be said."""
    untested, noise = guide.untested(rows), time_noise(rows)
    if not guide.trusted or noise is None:
        return untested
    measured = [_likely(row, rows, guide, noise) for row in rows if point(row)]
    slowest = math.inf
    if guide.predictor.limited and measured:
        slowest = min(row[2] for row in measured) * (1 + max(noise, SLOWER_TOLERATED))
    expected = [(found, guide.expected(found, rows, Obtained.MEASURED)) for found in untested]
    return [
        found
        for found, one in expected
        if one is None
        or (one[2] <= slowest and not any(matches(row, one, time_share=noise) for row in measured))
    ]


def _likely(row: Row, rows: Sequence[Row], guide: Guide, noise: float) -> Point:
    """The row's point, its time the predicted one where the difference is no more than noise."""
    memory, fragmentation, seconds = point(row) or (0.0, 0.0, 0.0)
    predicted = guide.predictor.predict(AllocatorSettings.parse(row.settings))
    expected = guide.expected(predicted, rows, Obtained.MEASURED)
    if expected is not None and abs(seconds - expected[2]) <= noise * expected[2]:
        seconds = expected[2]
    return memory, fragmentation, seconds


def matches(row: Point, predicted: Point, *, time_share: float) -> bool:
    """Whether a measured row is as good as a prediction, but for the noise."""
    memory = predicted[0] + max(MEMORY_SHARE * predicted[0], MEMORY_BYTES)
    return row[0] <= memory and row[2] <= predicted[2] * (1 + time_share)


def time_noise(rows: Sequence[Row]) -> float | None:
    """Noise of step time as a share of it; None while the defaults were not measured."""
    defaults = [row for row in rows if row.role is Role.DEFAULT and point(row) is not None]
    if not defaults:
        return None
    medians = [row.measurement.median_step_seconds or 0.0 for row in defaults]
    middle = statistics.median(medians)
    if middle <= 0:
        return LEAST_TIME_SHARE
    within_one = deviation(defaults[0].measurement.step_seconds) / middle
    return max(spread(medians) if len(medians) > 1 else within_one, LEAST_TIME_SHARE)
