"""EstimateRunner: trials of a script without a GPU are replays of one recording; a longer one can be had."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autotune.measurement import Measurement
from autotune.settings import AllocatorSettings
from autotune.trace.trace import Trace
from autotune.trial.replay_runner import ReplayRunner


class EstimateRunner(ReplayRunner):
    """Replays a script's recording; asked for another number of steps, one with that many. A Runner.

    Args:
        trace: the recording that trials replay.
        record: records the script with a number of measured steps.
        options: of the replays, as ReplayRunner takes them.
    """

    def __init__(self, trace: Trace, *, record: Callable[[int], Trace], **options: Any) -> None:
        super().__init__(trace, **options)
        self._record = record
        self._options = options
        self._longer: dict[int, ReplayRunner] = {}

    def longer(self, measured_steps: int) -> bool:
        """Record with that many steps, unless that was done; False where the script has no more of them.

        Raises:
            AutotuneError: it cannot be recorded.
        """
        return len(self._with_steps(measured_steps).trace.step_ends) > len(self.trace.step_ends)

    def measure(
        self, settings: AllocatorSettings, *, number: int, measured_steps: int | None = None
    ) -> Measurement:
        """Replay the recording once, or the one with so many steps.

        Raises:
            AutotuneError: it cannot be recorded with so many.
        """
        if measured_steps is None:
            return super().measure(settings, number=number)
        return self._with_steps(measured_steps).measure(settings, number=number)

    def _with_steps(self, measured_steps: int) -> ReplayRunner:
        if measured_steps not in self._longer:
            trace = self._record(measured_steps)
            self._longer[measured_steps] = ReplayRunner(trace, **self._options)
        return self._longer[measured_steps]
