"""What a recording says about itself: whether it is long enough to show the peak."""

from __future__ import annotations

from dataclasses import replace

from autotune.study.prepare import growth_note
from autotune.trace import Trace
from autotune.units import MIB
from tests.traces import Program


def steps(*sizes: int) -> Trace:
    """One block of so many MiB a step."""
    program = Program()
    for size in sizes:
        program.cache(size * MIB)
    return replace(program.trace(), step_ends=tuple(range(2, 2 * len(sizes) + 1, 2)))


def test_a_peak_in_the_second_half_of_the_steps_is_told() -> None:
    (told,) = growth_note(steps(30, 40, 20, 60))
    assert "In the first half of the 4 recorded steps live tensors took 40.0 MiB" in told
    assert "in all of them 60.0 MiB" in told


def test_a_peak_that_the_first_half_shows_already_is_not_told() -> None:
    assert growth_note(steps(30, 60, 60, 20)) == ()
    assert growth_note(steps(1000, 20, 1005, 20)) == ()
    assert growth_note(steps(30, 40, 60)) == ()  # too few to have halves
