"""Guide: what a recorded trace knows about candidates, so that no trial is spent without need."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from optuna.trial import FrozenTrial, TrialState, create_trial

from autotune.measurement import Obtained
from autotune.metrics import objectives
from autotune.report.objectives import Point, point
from autotune.report.stored import Role, Row
from autotune.settings import AllocatorSettings
from autotune.study.dead_ends import dead_end
from autotune.study.predict import Prediction, Predictor
from autotune.study.screened import Screened
from autotune.study.space import SearchSpace

ROWS_TO_SCALE = 5
"""Measured rows from which on predicted differences in time are compared with what was measured."""


@dataclass(frozen=True, kw_only=True)
class Guide:
    """Predictions, and what follows from them for a study's rows. Keeps no state of the study."""

    predictor: Predictor
    screened: Screened
    trusted: bool = True
    """Whether the trace's self-check passed."""

    def behaviour(self, settings: AllocatorSettings) -> str:
        """Key of what the allocator would do."""
        return self.predictor.predict(settings).behaviour

    def behaviours(self, rows: Sequence[Row]) -> dict[str, int]:
        """Behaviour → number of the first trial with it."""
        found: dict[str, int] = {}
        settings = [AllocatorSettings.parse(row.settings) for row in rows]
        for row, one in zip(rows, self.predictor.predict_many(settings), strict=True):
            found.setdefault(one.behaviour, row.number)
        return found

    def untested(self, rows: Sequence[Row]) -> list[Prediction]:
        """Members of the screening whose behaviour no row has and that are no dead end, in their order."""
        known, dead = self.behaviours(rows), dead_end(rows)
        return [
            found
            for found in self.screened.members
            if found.behaviour not in known and not dead(found.settings)
        ]

    def expected(self, found: Prediction, rows: Sequence[Row], obtained: Obtained) -> Point | None:
        """The objectives that a trial of this study would find, in bytes, share and seconds.

        For a replay they are the prediction itself. A measured study's are those of the defaults (the
        median of their runs), changed by what the replays differ: driver time adds to the steps after
        warm-up, as far as it did so in the rows (`_time_scale`). None before the defaults ran.
        """
        measurement = found.measurement
        if obtained is not Obtained.MEASURED:
            return found.memory, measurement.fragmentation or 0.0, found.seconds
        references = [defaults for row in rows if row.role is Role.DEFAULT and (defaults := point(row))]
        if not references:
            return None
        memory, seconds = (statistics.median(one[axis] for one in references) for axis in (0, 2))
        more = found.memory - self.predictor.predict(AllocatorSettings()).memory
        slower = self._time_scale(rows, seconds) * self._slower(found)
        return max(memory + more, 1.0), measurement.fragmentation or 0.0, max(seconds + slower, 0.0)

    def _slower(self, found: Prediction) -> float:
        """Seconds that a step takes longer than under the defaults, if the cost table is right."""
        defaults = self.predictor.predict(AllocatorSettings())
        return (found.seconds - defaults.seconds) / self.predictor.num_steady_steps

    def _time_scale(self, rows: Sequence[Row], baseline_seconds: float) -> float:
        """How much of the predicted differences in time showed in the rows: least squares, from 0 to 2.

        1 until there are enough rows. A GPU that is busy meanwhile hides driver calls; another driver takes
        longer for them.
        """
        measured = [(AllocatorSettings.parse(row.settings), found) for row in rows if (found := point(row))]
        if len(measured) < ROWS_TO_SCALE:
            return 1.0
        predicted = [self._slower(self.predictor.predict(settings)) for settings, _ in measured]
        observed = [found[2] - baseline_seconds for _, found in measured]
        square = sum(one * one for one in predicted)
        product = sum(one * other for one, other in zip(predicted, observed, strict=True))
        return min(max(product / square, 0.0), 2.0) if square else 1.0

    def told(self, rows: Sequence[Row], space: SearchSpace, obtained: Obtained) -> list[FrozenTrial]:
        """The untested members as finished trials, for the sampler to learn from; never stored."""
        trials = []
        for found in self.untested(rows):
            parameters, values = space.parameters(found.settings), self.expected(found, rows, obtained)
            if parameters is None or values is None:
                continue
            scales = [metric.scale for metric in objectives(obtained)]
            trials.append(
                create_trial(
                    state=TrialState.COMPLETE,
                    values=[value * scale for value, scale in zip(values, scales, strict=True)],
                    params=parameters,
                    distributions=space.distributions(parameters),
                )
            )
        return trials
