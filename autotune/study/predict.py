"""Predictor: what each of many settings would do to the tuned program, from one recorded trace."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from autotune.allocator import smallest_fit_many
from autotune.allocator.behaviour import behaviour
from autotune.allocator.conditions import Conditions
from autotune.allocator.parallel import Progress, on_all_cores
from autotune.allocator.result import Engine, fits
from autotune.measurement import Measurement, Obtained
from autotune.settings import AllocatorSettings, TorchVersion, simplicity
from autotune.trace.trace import Trace
from autotune.trial.replay_runner import ReplayRunner

Item = TypeVar("Item")
Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What one replay says."""

    settings: AllocatorSettings
    behaviour: str
    """Key of what the allocator did; settings with equal keys are one candidate."""
    measurement: Measurement
    """REPLAYED or ESTIMATED."""
    operations: int | None = None
    """Rows replayed: how far the program came; None where that is no longer known."""

    @property
    def completes(self) -> bool:
        """Whether the program fits into the memory."""
        return self.measurement.completed

    @property
    def memory(self) -> int:
        """Peak reserved bytes."""
        return self.measurement.peak_reserved_bytes or 0

    @property
    def seconds(self) -> float:
        """Time in driver calls after warm-up; 0 where the engine does not list its calls."""
        return self.measurement.allocator_seconds or 0.0

    @property
    def objectives(self) -> tuple[float, float, float]:
        """Peak reserved, smallest fit (infinite where it was not sought) and driver time."""
        fit = self.measurement.smallest_fit_bytes
        return self.memory, math.inf if fit is None else fit, self.seconds

    @cached_property
    def simplicity(self) -> tuple[int, int, str]:
        """Orders the settings of one behaviour."""
        return simplicity(str(self.settings))


class Predictor:
    """Replays one trace under any settings, each once.

    Args:
        trace: of the tuned program.
        torch_version: whose rules to follow.
        memory_limit: bytes that may be reserved; None = the whole device.
        device_total: bytes of the device; None = the recording's.
        warmup_steps: steps whose driver calls cost nothing.
        engine: `model` or `native`.
    """

    def __init__(
        self,
        trace: Trace,
        *,
        torch_version: TorchVersion,
        memory_limit: int | None = None,
        device_total: int | None = None,
        warmup_steps: int = 5,
        engine: str = "model",
    ) -> None:
        self.trace = trace
        self._engine = engine
        self._conditions = Conditions.of(trace, memory_limit, device_total, torch_version)
        self._runner = ReplayRunner(
            trace,
            torch_version=torch_version,
            memory_limit=memory_limit,
            device_total=device_total,
            engine=engine,
            warmup_steps=warmup_steps,
        )
        self._known: dict[str, Prediction] = {}

    @property
    def obtained(self) -> Obtained:
        """How its numbers come about."""
        return self._runner.obtained

    @property
    def limited(self) -> bool:
        """Whether it replays under a memory limit."""
        return self._conditions.memory_limit is not None

    @property
    def num_steady_steps(self) -> int:
        """Steps after warm-up, over which driver time is spread; 1 where the trace does not know steps."""
        return max(1, len(self.trace.step_ends) - self._runner.warmup_steps)

    def predict(self, settings: AllocatorSettings) -> Prediction:
        """What the settings would do."""
        return self.predict_many([settings])[0]

    def predict_many(
        self, settings: Sequence[AllocatorSettings], progress: Progress | None = None
    ) -> list[Prediction]:
        """`predict` for each of the settings, in their order, on all cores.

        `progress` is called with the number replayed so far, those known already left out.
        """
        new = {str(each): each for each in settings if str(each) not in self._known}
        found = self._on_all_cores(self._replay, list(new.values()), progress)
        self._known.update(zip(new, found, strict=True))
        return [self._known[str(each)] for each in settings]

    def smallest_fits(
        self, settings: Sequence[AllocatorSettings], progress: Progress | None = None
    ) -> list[int | None]:
        """The smallest memory in bytes in which the program completes, for each of the settings."""
        return smallest_fit_many(
            self.trace,
            settings,
            device_total=self._conditions.device_total,
            torch_version=self._conditions.torch_version,
            engine=self._engine,
            progress=progress,
        )

    def complete_within(self, memory_limit: int, settings: Sequence[AllocatorSettings]) -> list[bool]:
        """Whether the program completes in this memory, for each of the settings."""
        limited = replace(self._conditions, memory_limit=memory_limit)

        def completes(engine: Engine, each: AllocatorSettings) -> bool:
            result = limited.replay(engine, self.trace, each)
            return fits(result.outcome, result.peak_reserved_bytes, memory_limit)

        return self._on_all_cores(completes, settings)

    def _on_all_cores(
        self, task: Callable[[Engine, Item], Answer], items: Sequence[Item], progress: Progress | None = None
    ) -> list[Answer]:
        return on_all_cores(task, items, engine=self._engine, workers=None, progress=progress)

    def _replay(self, engine: Engine, settings: AllocatorSettings) -> Prediction:
        # Reduced at once: the driver calls of thousands of replays would fill the memory.
        result = self._conditions.replay(engine, self.trace, settings)
        return Prediction(
            settings=settings,
            behaviour=behaviour(result),
            operations=result.operations,
            measurement=self._runner.measurement_of(result),
        )
