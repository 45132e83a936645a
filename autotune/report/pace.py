"""What counts as equally fast, given how far apart equal runs are."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.measurement import Measurement, Obtained
from autotune.report.noise import deviation, percentile_95, spread
from autotune.report.objectives import must
from autotune.report.stored import Conditions, Role, Row

SLOWER_TOLERATED = 0.02
"""A third objective this much above the reference's still counts as equally fast."""
FREE_SECONDS_A_STEP = 0.0005
"""Driver time that counts as free in a step of an estimated run, whose steps nobody has timed: a dozen calls
of cudaMalloc, each some 40 µs for 2 to 64 MiB (allocator/cost.py). Training steps take tens to hundreds of
ms: of one of 25 ms it is 2 %, of most less."""
LONGER_TAIL_TOLERATED = 0.1
"""A p95 this much above the reference's still counts as the same tail; it rests on few steps."""


@dataclass(frozen=True, kw_only=True)
class Noise:
    """How far apart runs under equal settings were, as shares; None where there was but one run."""

    median: float | None = None
    tail: float | None = None


NOT_KNOWN = Noise()


def noise_of_runs(rows: Sequence[Row]) -> Noise:
    """The noise that the repeated defaults of a search show."""
    found = [row.measurement for row in rows if row.role is Role.DEFAULT and row.completed]
    medians = [one.median_step_seconds for one in found if one.median_step_seconds]
    tails = [tail for one in found if (tail := percentile_95(one.step_seconds))]
    return Noise(
        median=spread(medians) if len(medians) > 1 else None, tail=spread(tails) if len(tails) > 1 else None
    )


@dataclass(frozen=True, kw_only=True)
class Pace:
    """The rule by which rows of one study count as equally fast."""

    recorded_seconds: float | None = None
    """Length of the recorded run. Where step time is not measured, driver calls that add up to 2 % of it
    count as free."""
    recorded_steps: int | None = None
    """Its steps; what an estimate, which has no length, goes by."""
    noise: Noise = NOT_KNOWN

    def allowed(self, reference: Row) -> float:
        """The third objective up to which a row counts as equally fast as the reference.

        Measured step time: 2 % more, or what equal runs differ by where that is larger. Steps of one run do
        not tell that (batches differ); only where the defaults ran once, twice the standard error of the
        reference's median stands in. Driver time: 2 % more, or more by what counts as free
        (`free_seconds`) where that is larger.
        """
        seconds = must(reference)[2]
        measurement = reference.measurement
        if measurement.obtained is not Obtained.MEASURED:
            return seconds + max(SLOWER_TOLERATED * seconds, self.free_seconds(measurement.obtained))
        known = self.noise.median
        noise = 2 * noise_of_median(measurement) if known is None else known
        return seconds * (1 + max(SLOWER_TOLERATED, noise))

    def free_seconds(self, obtained: Obtained) -> float:
        """Driver time that nobody would notice: 2 % of the recorded run; of an estimate 0.5 ms a step.

        How an estimate was come by, from a script or from a trace of it, makes no difference.
        """
        if obtained is Obtained.ESTIMATED:
            return FREE_SECONDS_A_STEP * (self.recorded_steps or 1)
        return SLOWER_TOLERATED * (self.recorded_seconds or 0.0)

    def as_fast(self, row: Row, reference: Row) -> bool:
        """Whether a row is as fast as the reference, in its typical step and in its slowest ones.

        A few steps with allocation retries do not move the median, and cost time all the same.
        """
        return must(row)[2] <= self.allowed(reference) and not self._longer_tail(row, reference)

    def _longer_tail(self, row: Row, reference: Row) -> bool:
        own, other = (percentile_95(one.measurement.step_seconds) for one in (row, reference))
        if own is None or other is None or self.noise.tail is None:
            return False
        return own > other * (1 + max(LONGER_TAIL_TOLERATED, self.noise.tail))

    def fastest(self, rows: Sequence[Row]) -> Row | None:
        """Of the rows with the fastest typical step, the one whose slowest steps are fastest."""
        first = min(rows, key=lambda row: (must(row)[2], must(row)[0], row.number), default=None)
        if first is None:
            return None
        alike = [row for row in rows if must(row)[2] <= self.allowed(first)]
        tails = [(tail, row) for row in alike if (tail := percentile_95(row.measurement.step_seconds))]
        if self.noise.tail is None or len(tails) < len(alike):
            return first
        return min(tails, key=lambda pair: (pair[0], pair[1].number))[1]


def pace_of(conditions: Conditions, noise: Noise = NOT_KNOWN) -> Pace:
    """The rule for rows made under these conditions."""
    return Pace(
        recorded_seconds=conditions.recorded_seconds,
        recorded_steps=conditions.recorded_steps or conditions.measured_steps,
        noise=noise,
    )


def noise_of_median(measurement: Measurement) -> float:
    """Relative standard error of the median step time, from the median absolute deviation; 0 for one step."""
    times = measurement.step_seconds
    if len(times) < 2:
        return 0.0
    middle = statistics.median(times)
    return 1.2533 * deviation(times) / math.sqrt(len(times)) / middle if middle > 0 else 0.0
