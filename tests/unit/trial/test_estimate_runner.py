"""A script's estimate with more steps than the trials have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.errors import WorkFailedError
from autotune.settings import AllocatorSettings
from autotune.trace import Trace
from autotune.trial.estimate_runner import EstimateRunner
from autotune.units import MIB
from tests.traces import Program

DEFAULTS = AllocatorSettings()


def steps(*sizes: int) -> Trace:
    """One block of so many MiB a step."""
    program = Program()
    for size in sizes:
        program.cache(size * MIB)
    return replace(program.trace(estimated=True), step_ends=tuple(range(2, 2 * len(sizes) + 1, 2)))


def test_another_number_of_steps_is_recorded_once_and_replayed() -> None:
    asked: list[int] = []

    def record(measured_steps: int) -> Trace:
        asked.append(measured_steps)
        return steps(30, 40, 90, 90)

    runner = EstimateRunner(steps(30, 40), record=record, warmup_steps=0)
    assert runner.longer(4)
    found = [runner.measure(DEFAULTS, number=0, measured_steps=wanted) for wanted in (None, 4, 4)]
    assert [(one.peak_allocated_bytes or 0) // MIB for one in found] == [40, 90, 90]
    assert asked == [4]


def test_a_script_that_has_no_more_steps_is_found_out() -> None:
    assert not EstimateRunner(steps(30, 40), record=lambda number: steps(30, 40)).longer(4)


def test_what_cannot_be_recorded_again_is_said() -> None:
    def record(measured_steps: int) -> Trace:
        raise WorkFailedError("The script could not be recorded: no more data.")

    with pytest.raises(WorkFailedError, match="no more data"):
        EstimateRunner(steps(30, 40), record=record).longer(4)
