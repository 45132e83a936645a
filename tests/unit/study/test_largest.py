"""Bisection over an argument's values: right wherever the limit lies, and honest about the ends."""

from __future__ import annotations

import pytest

from autotune.errors import UsageError, WorkFailedError
from autotune.measurement import Measurement, Outcome
from autotune.settings import AllocatorSettings
from autotune.study.largest import largest, largest_of_each, parse_range, with_value
from tests.fakes import measurement

DEFAULTS, EXPANDABLE = AllocatorSettings(), AllocatorSettings(expandable_segments=True)


class Script:
    """Runs with every value up to a limit that depends on the settings."""

    def __init__(self, **limits: int) -> None:
        self.limits = {DEFAULTS: limits["defaults"], EXPANDABLE: limits.get("expandable", 0)}
        self.asked: list[int] = []

    def __call__(self, settings: AllocatorSettings, value: int) -> Measurement:
        self.asked.append(value)
        fits = value <= self.limits[settings]
        return measurement(outcome=Outcome.COMPLETED if fits else Outcome.OUT_OF_MEMORY, reserved=value)


@pytest.mark.parametrize("limit", range(21))
@pytest.mark.parametrize("guess", [None, 1, 7, 20, 99])
def test_the_largest_value_is_found_wherever_it_is(limit: int, guess: int | None) -> None:
    script = Script(defaults=limit)
    found = largest(script, DEFAULTS, range(1, 21), guess)
    assert found.value == (limit or None)
    assert found.at_the_end is (limit == 20)
    assert found.runs == len(script.asked) == len(set(script.asked))
    assert (found.measurement is None) is (limit == 0)


def test_a_step_is_kept() -> None:
    assert largest(Script(defaults=30), DEFAULTS, range(8, 65, 8)).value == 24


def test_a_good_guess_saves_runs() -> None:
    values = range(1, 513)
    far, near = Script(defaults=301), Script(defaults=301)
    largest(far, DEFAULTS, values)
    largest(near, DEFAULTS, values, guess=300)
    assert len(near.asked) < len(far.asked)


def test_each_answer_is_the_next_ones_guess() -> None:
    script = Script(defaults=290, expandable=300)
    answers = largest_of_each(script, [EXPANDABLE, DEFAULTS], range(1, 513))
    assert [answer.value for answer in answers] == [300, 290]


@pytest.mark.parametrize("predicted", [1, 250, 300, 350, 512])
def test_a_prediction_saves_runs_and_decides_nothing(predicted: int) -> None:
    script = Script(defaults=300)
    (answer,) = largest_of_each(script, [DEFAULTS], range(1, 513), Script(defaults=predicted))
    assert answer.value == 300
    if predicted == 300:
        assert script.asked == [300, 301]


def test_a_run_that_breaks_otherwise_stops_the_search_with_its_reason() -> None:
    def breaks(settings: AllocatorSettings, value: int) -> Measurement:
        return measurement(outcome=Outcome.CRASHED, reason="ValueError: odd batch.")

    with pytest.raises(WorkFailedError, match=r"With the value 1 .* ValueError: odd batch"):
        largest(breaks, DEFAULTS, range(1, 9))


@pytest.mark.parametrize(
    ("text", "values"), [("1:4", [1, 2, 3, 4]), ("8:24:8", [8, 16, 24]), ("3:3", [3]), ("1:10:4", [1, 5, 9])]
)
def test_ranges_hold_both_ends(text: str, values: list[int]) -> None:
    assert list(parse_range(text)) == values


@pytest.mark.parametrize("text", ["", "5", "1:2:3:4", "a:b", "4:1", "1:4:0", "-1:4", "1:9999999999", "٣:٤"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_range(text)


def test_the_value_takes_the_place_of_the_braces() -> None:
    assert with_value("--batch-size {}", 8) == ["--batch-size", "8"]
    assert with_value("--shape={}x{}", 8) == ["--shape=8x8"]


@pytest.mark.parametrize("text", ["--batch-size", "--name '{}"])
def test_an_argument_without_a_place_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        with_value(text, 1)
