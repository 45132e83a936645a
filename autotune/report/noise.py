"""What repeated runs say, and how surely: intervals, tails, changes between two settings.

Steps of one run share its conditions (clocks, caches, the process's memory layout), so they cannot say how
much another run would differ. Runs can: a change is estimated from rounds, each of which ran both settings
one after the other, with Student's t over the logarithms of their ratios (Kalibera and Jones, "Rigorous
benchmarking in reasonable time", ISMM 2013, treat runs as the unit for the same reason).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
STUDENT_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
)  # fmt: skip
"""Quantiles for a two-sided interval of 95 %, by degrees of freedom from 1 on (any table has them)."""
NORMAL = 1.960


@dataclass(frozen=True, kw_only=True)
class Change:
    """A value relative to a reference, as a ratio with an interval of 95 %; 0.9 is 10 % less."""

    ratio: float
    low: float
    high: float
    rounds: int

    @property
    def beyond_noise(self) -> bool:
        """Whether the interval leaves no room for 'no difference'."""
        return not self.low <= 1.0 <= self.high


def change(references: Sequence[float], values: Sequence[float]) -> Change | None:
    """The change from paired rounds; None with fewer than two, or where a number is not positive.

    Args:
        references: what the reference gave in each round.
        values: what the other setting gave in the same rounds.
    """
    pairs = list(zip(references, values, strict=False))
    if len(pairs) < 2 or any(number <= 0 for pair in pairs for number in pair):
        return None
    logarithms = [math.log(value / reference) for reference, value in pairs]
    middle = statistics.fmean(logarithms)
    half = student_t(len(pairs) - 1) * statistics.stdev(logarithms) / math.sqrt(len(pairs))
    ratio, low, high = (math.exp(found) for found in (middle, middle - half, middle + half))
    return Change(ratio=ratio, low=low, high=high, rounds=len(pairs))


def exact_change(references: Sequence[float], values: Sequence[float]) -> Change | None:
    """The change between numbers that no repetition changes, as those of replays; None without any."""
    if not references or not values or min(references[0], values[0]) <= 0:
        return None
    ratio = values[0] / references[0]
    return Change(ratio=ratio, low=ratio, high=ratio, rounds=1)


def student_t(degrees: int) -> float:
    """The two-sided quantile of 95 %."""
    return STUDENT_T[degrees - 1] if degrees <= len(STUDENT_T) else NORMAL


def deviation(values: Sequence[float]) -> float:
    """The median absolute deviation, scaled to a standard deviation of a normal distribution."""
    middle = statistics.median(values)
    return 1.4826 * statistics.median(abs(value - middle) for value in values)


def spread(values: Sequence[float]) -> float:
    """How far apart equal runs are, as a share of their median; 0 for a single one."""
    middle = statistics.median(values) if values else 0.0
    return (max(values) - min(values)) / middle if middle > 0 else 0.0


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Two of the values that enclose the median with at least 95 %, whatever their distribution.

    The order statistics on which the sign test rests; None for fewer than six values, which cannot.
    """
    ordered, count = sorted(values), len(values)
    tail, below = 0.0, -1
    for index in range(count // 2):
        tail += math.comb(count, index) / 2**count
        if 2 * tail > 1 - CONFIDENCE:
            break
        below = index
    return (ordered[below], ordered[count - 1 - below]) if below >= 0 else None


def percentile_95(values: Sequence[float]) -> float | None:
    """The value that 95 % of the values do not exceed; None for fewer than twenty, which have no tail."""
    return sorted(values)[math.ceil(0.95 * len(values)) - 1] if len(values) >= 20 else None
