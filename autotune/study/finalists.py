"""Finalists of a screening: which of its behaviours are kept, and in what order they are worth a trial."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from autotune.allocator.parallel import Progress
from autotune.report.pace import Pace
from autotune.report.pareto import front
from autotune.report.pick import ANY_PACE, balanced_pick
from autotune.report.stored import Role, Row
from autotune.settings import AllocatorSettings
from autotune.study.evenly import evenly
from autotune.study.predict import Prediction, Predictor
from autotune.study.screen import Screening, plane, simplest_points
from autotune.study.simplify import simplify
from autotune.study.space import SearchSpace
from autotune.units import MIB

POOL_SHARE = 0.05
"""Settings whose smallest fit is looked into, as a share of those screened."""
FITS_SHARE = 0.008
"""Settings whose smallest fit is worked out, which takes some 25 replays each."""
FEWEST_FITS = 8
MOST_SIMPLIFIED = 10
"""Members of the front that are made simpler."""
ROOM = (1.25, 1.12, 1.06, 1.03, 1.015)
"""Memory in which settings race for the smallest fit, as multiples of the live peak."""
PAGE = 2 * MIB


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Differences that a measurement on a GPU could not show."""

    memory_share: float = 0.005
    memory_bytes: int = PAGE
    seconds: float = 0.0
    """Of the time in driver calls of the whole recorded run."""

    def hides(self, one: Sequence[float], other: Sequence[float]) -> bool:
        """Whether two predictions' objectives cannot be told apart."""
        near = (abs(a - b) <= max(self.memory_bytes, self.memory_share * b) for a, b in zip(one, other[:2]))  # noqa: B905
        return all(near) and abs(one[2] - other[2]) <= self.seconds


NO_NOISE = Noise(memory_share=0.0, memory_bytes=0)
"""Replays are exact."""


def finalists(
    predictor: Predictor,
    space: SearchSpace,
    screening: Screening,
    *,
    anchors: Iterable[AllocatorSettings] = (),
    heard: Progress | None = None,
) -> list[Prediction]:
    """Predictions with their smallest fit, ascending in memory: the front, those near it, and the anchors.

    Args:
        predictor: the one that screened.
        space: what was screened.
        screening: what it found.
        anchors: settings to keep in any case, if they complete.
        heard: told how many smallest fits are worked out already.
    """
    most = max(FEWEST_FITS, round(FITS_SHARE * screening.num_settings))
    points = simplest_points(screening.completing)
    kept = [found for found in predictor.predict_many(list(anchors)) if found.completes]
    kept += evenly(plane(points), most // 3)
    kept += points[: most // 4]
    kept += _fitting(predictor, evenly(points, round(POOL_SHARE * screening.num_settings)), most // 3)
    kept += evenly(points, most // 4)
    measured = _with_fits(predictor, kept, heard)
    best = evenly(front_of(measured), MOST_SIMPLIFIED)
    simpler = [simplify(predictor, space, found) for found in best]
    replaced = {one.behaviour for one, other in zip(best, simpler, strict=True) if one is not other}
    rest = [found for found in measured if found.behaviour not in replaced]
    new = [found for found in simpler if found.measurement.smallest_fit_bytes is None]
    return sorted(
        {found.behaviour: found for found in (*_with_fits(predictor, new), *rest)}.values(),
        key=lambda found: (found.objectives, found.simplicity),
    )


def _with_fits(
    predictor: Predictor, found: Sequence[Prediction], heard: Progress | None = None
) -> list[Prediction]:
    """The same, one a behaviour, each with its smallest fit; without those that the device cannot hold."""
    different = list({one.behaviour: one for one in found}.values())
    fits = predictor.smallest_fits([one.settings for one in different], heard)
    return [
        replace(one, measurement=replace(one.measurement, smallest_fit_bytes=fit))
        for one, fit in zip(different, fits, strict=True)
        if fit is not None
    ]


def front_of(members: Sequence[Prediction]) -> list[Prediction]:
    """The members that no other beats in peak reserved, smallest fit and driver time; one for equal ones."""
    points = {found.objectives: found for found in sorted(members, key=lambda found: found.simplicity)[::-1]}
    listed = list(points.values())
    best = [listed[index] for index in front({i: found.objectives for i, found in enumerate(listed)})]
    return sorted(best, key=lambda found: found.objectives)


def in_order(
    members: Sequence[Prediction],
    defaults: Prediction,
    *,
    tried: Collection[str] = (),
    limited: bool,
    noise: Noise = NO_NOISE,
    pace: Pace = ANY_PACE,
) -> list[Prediction]:
    """The front in the order in which it is worth trials, without members that noise would hide.

    First the least memory, then the recommendation, the smallest fit and the fastest; then whatever is
    farthest from all those before it. Under a memory limit, where fitting comes first and all that fit are
    good enough in memory, the smallest fit and the fastest lead.

    Args:
        members: of a screening, with their smallest fits.
        defaults: prediction for PyTorch's defaults.
        tried: behaviours that get a trial in any case, and are left out.
        limited: whether there is a memory limit.
        noise: what hides one member behind another.
        pace: what counts as equally fast.
    """
    best = front_of(members)
    if not best:
        return []
    memory, fit, seconds = (min(best, key=_by(axis)) for axis in (0, 1, 2))
    balanced = _balanced(best, defaults, pace) or memory
    leaders = [fit, seconds, balanced, memory] if limited else [memory, balanced, fit, seconds]
    chosen = [found for found in members if found.behaviour in tried]
    num_tried = len(chosen)
    for one in (*leaders, *_farthest_first(leaders, best)):
        if not any(one is other or noise.hides(one.objectives, other.objectives) for other in chosen):
            chosen.append(one)
    return chosen[num_tried:]


def _by(axis: int) -> Callable[[Prediction], tuple[float, ...]]:
    def key(found: Prediction) -> tuple[float, ...]:
        values = found.objectives
        return (values[axis], *values)

    return key


def _fitting(predictor: Predictor, pool: Sequence[Prediction], most: int) -> list[Prediction]:
    """Those of the pool that complete in the least memory, found by giving them less and less."""
    live = max((found.measurement.peak_requested_bytes or 0 for found in pool), default=0)
    for share in ROOM:
        if len(pool) <= most:
            break
        completes = predictor.complete_within(int(share * live), [found.settings for found in pool])
        fitting = [found for found, fits in zip(pool, completes, strict=True) if fits]
        if not fitting:
            break
        pool = fitting
    return evenly(pool, most)


def _balanced(members: Sequence[Prediction], defaults: Prediction, pace: Pace) -> Prediction | None:
    """The member that a study of them would recommend."""
    rows = [
        Row(
            number=number,
            role=Role.SCREENED,
            settings=str(found.settings),
            measurement=found.measurement,
        )
        for number, found in enumerate((defaults, *members))
    ]
    picked = balanced_pick(rows[1:], rows[0], pace=pace)
    return members[picked.number - 1] if picked is not None and picked.number else None


def _farthest_first(chosen: Sequence[Prediction], members: Sequence[Prediction]) -> list[Prediction]:
    """The other members, each as far as possible from all before it; distances as shares of the range."""
    columns = list(zip(*(found.objectives for found in members), strict=True))
    ranges = [(max(column) - min(column)) or 1.0 for column in columns]

    def distance(one: Prediction, other: Prediction) -> float:
        pairs = zip(one.objectives, other.objectives, ranges, strict=True)
        return math.sqrt(sum(((a - b) / width) ** 2 for a, b, width in pairs))

    before, left = list(chosen), [found for found in members if found not in chosen]
    ordered = []
    while left:
        one = max(left, key=lambda found: min(distance(found, other) for other in before))
        left.remove(one)
        before.append(one)
        ordered.append(one)
    return ordered
