"""What makes numbers uncertain is said once, with the trials and with what to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autotune.measurement import Measurement, Obtained, Outcome
from autotune.report.doubts import doubts, recording_ended_early, retried_steps, rises_at_the_end
from autotune.report.stored import Role
from autotune.report.wording import warnings
from tests.fakes import measurement, row, summary


def timed(**fields: Any) -> Measurement:
    return replace(measurement(seconds=[0.1] * 6, obtained=Obtained.MEASURED), **fields)


def in_environment(**fields: Any) -> Measurement:
    found = timed()
    return replace(found, environment=replace(found.environment, **fields))


def test_a_quiet_run_leaves_no_doubt() -> None:
    quiet = in_environment(cpu_busy=0.3)
    assert doubts([row(0, measured=replace(quiet, step_peak_reserved_bytes=(5, 9, 9, 9, 9)))]) == []


@pytest.mark.parametrize(
    ("steps", "rising"),
    [((1, 2, 3, 4), True), ((4, 4, 4, 4), False), ((1, 2, 3), False), ((1,) * 19 + (2,), True), ((), False)],
)
def test_a_peak_in_the_last_steps_is_doubted(steps: tuple[int, ...], rising: bool) -> None:
    assert rises_at_the_end(timed(step_peak_reserved_bytes=steps)) is rising


def test_retries_count_in_measured_steps_only() -> None:
    assert retried_steps(timed(warmup_steps=2, step_alloc_retries=(3, 1, 0, 2, 1))) == 2


@pytest.mark.parametrize(
    ("measured", "words", "advice"),
    [
        (timed(step_peak_reserved_bytes=(1, 2, 3, 4)), "still rising", "--steps"),
        (timed(step_alloc_retries=(0, 2)), "1 measured steps contain allocation retries", "raise the limit"),
        (in_environment(throttled=("power cap",)), "(power cap)", "cooling"),
        (in_environment(cpu_busy=0.97), "97.0 % busy", "more cores"),
    ],
)
def test_each_doubt_names_its_trials_and_says_what_to_do(
    measured: Measurement, words: str, advice: str
) -> None:
    (sentence,) = doubts([row(0, measured=timed()), *(row(n, measured=measured) for n in range(1, 9))])
    assert words in sentence
    assert advice in sentence
    assert "(trial 1, 2, 3, 4, 5, 6 and 2 more)" in sentence


def test_failures_and_replays_are_not_doubted() -> None:
    rising = timed(step_peak_reserved_bytes=(1, 2, 3, 4))
    failed = replace(rising, outcome=Outcome.OUT_OF_MEMORY)
    replayed = replace(rising, obtained=Obtained.REPLAYED)
    assert doubts([row(0, measured=failed), row(1, measured=replayed)]) == []


def test_a_script_that_ended_early_is_told_with_what_was_measured_and_asked_for() -> None:
    rows = [row(0, measured=timed(step_seconds=(0.1,) * 3)), row(1, measured=timed(step_seconds=(0.1,) * 20))]
    (sentence,) = doubts(rows, asked_steps=20)
    assert "only 3 steps were measured after warm-up, where 20 were asked for" in sentence
    assert sentence.endswith("with --warmup and --steps (trial 0).")
    assert doubts(rows, asked_steps=3) == doubts(rows) == []
    whole = timed(step_seconds=(0.1,), whole_run_is_one_step=True)
    assert doubts([row(0, measured=whole)], asked_steps=20) == []


def test_a_report_knows_from_the_conditions_how_many_steps_were_asked_for() -> None:
    short = row(0, "", Role.DEFAULT, measured=timed(step_seconds=(0.1,) * 3))
    found = warnings(summary(short, obtained=Obtained.MEASURED, measured_steps=20))
    assert any("only 3 steps were measured" in sentence for sentence in found)


@pytest.mark.parametrize(("steps", "told"), [(8, True), (25, False), (0, False)])
def test_a_recording_that_ended_early_is_told(steps: int, told: bool) -> None:
    found = recording_ended_early(steps, 5, 20)
    assert bool(found) is told
    assert all("ended after 8 of the 25 steps" in sentence for sentence in found)
