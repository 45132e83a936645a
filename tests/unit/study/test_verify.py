"""A claim holds or it does not: memory to the percent, time beyond noise."""

from __future__ import annotations

import pytest

from autotune.errors import UsageError
from autotune.measurement import Measurement, Obtained, Outcome
from autotune.report.stored import Role
from autotune.settings import AllocatorSettings
from autotune.study.verify import Claim, claim_of, judge, measure
from tests.fakes import FakeRunner, measurement, row, summary

SETTINGS = AllocatorSettings(expandable_segments=True)
TEXT = str(SETTINGS)
CLAIM = Claim(settings=SETTINGS, memory=0.6, seconds=1.0)


def timed(reserved: float, seconds: float, outcome: Outcome = Outcome.COMPLETED) -> Measurement:
    return measurement(reserved=reserved, seconds=[seconds] * 5, obtained=Obtained.MEASURED, outcome=outcome)


def verdict(claim: Claim, defaults: Measurement, tuned: Measurement) -> tuple[bool, str]:
    runner = FakeRunner({"": defaults, TEXT: tuned}, obtained=Obtained.MEASURED)
    found = measure(runner, SETTINGS, rounds=3, steps=None, heard=lambda number, one: None)
    assert runner.asked == ["", TEXT] * 3
    judged = judge(claim, found)
    return judged.holds, judged.sentence


def test_what_is_as_claimed_holds() -> None:
    assert verdict(CLAIM, timed(10, 1.0), timed(6, 1.0)) == (True, "The claim holds.")
    assert verdict(CLAIM, timed(10, 1.0), timed(5, 0.5))[0]


@pytest.mark.parametrize(
    ("tuned", "words"),
    [
        (timed(6.2, 1.0), "peak reserved changes by −38.0 %, claimed −40.0 %"),
        (timed(6, 1.1), "step time changes by at least +10.0 %, allowed are 2.0 %"),
        (timed(6, 1.0, Outcome.OUT_OF_MEMORY), "3 of 3 runs under the settings did not complete"),
    ],
)
def test_what_is_not_as_claimed_is_named(tuned: Measurement, words: str) -> None:
    holds, sentence = verdict(CLAIM, timed(10, 1.0), tuned)
    assert not holds
    assert words in sentence


def test_running_where_the_defaults_do_not_is_a_claim() -> None:
    claim = Claim(settings=SETTINGS, memory=None, seconds=None)
    assert verdict(claim, timed(10, 1, Outcome.OUT_OF_MEMORY), timed(6, 1))[0]
    assert not verdict(claim, timed(10, 1), timed(6, 1, Outcome.OUT_OF_MEMORY))[0]


def test_the_claim_is_the_recommendations() -> None:
    default = row(0, "", Role.DEFAULT, measured=timed(10, 1.0))
    tuned = row(1, TEXT, measured=timed(6, 1.01))
    study = summary(default, tuned, obtained=Obtained.MEASURED)
    found = claim_of(study, None)
    assert (found.settings, found.memory, found.seconds) == (SETTINGS, pytest.approx(0.6), 1.01)
    fresh = claim_of(study, "max_split_size_mb:64")
    assert (fresh.memory, fresh.seconds) == (1.0, 1.0)


def test_the_confirmed_numbers_are_claimed_where_there_are_any() -> None:
    rows = [row(0, "", Role.DEFAULT, measured=timed(10, 1.0)), row(1, TEXT, measured=timed(6, 1.0))]
    rows += [row(n, "", Role.CONFIRM, measured=timed(10, 1.0)) for n in (2, 4)]
    rows += [row(n, TEXT, Role.CONFIRM, measured=timed(7, 0.9)) for n in (3, 5)]
    found = claim_of(summary(*rows, obtained=Obtained.MEASURED), None)
    assert (found.memory, found.seconds) == (pytest.approx(0.7), pytest.approx(0.9))


def test_a_study_that_recommends_the_defaults_claims_nothing() -> None:
    with pytest.raises(UsageError, match="claim nothing"):
        claim_of(summary(row(0, "", Role.DEFAULT), obtained=Obtained.REPLAYED), None)
