"""Intervals hold what they promise, also when whole runs differ; tails and changes of made-up runs."""

from __future__ import annotations

import random

import pytest

from autotune.report.noise import change, median_interval, percentile_95, spread, student_t


@pytest.mark.parametrize("rounds", [3, 5])
@pytest.mark.parametrize("truth", [0.9, 1.0, 1.2])
def test_the_interval_of_a_change_holds_the_truth_as_often_as_it_says(rounds: int, truth: float) -> None:
    chance = random.Random(rounds)
    held = 0
    for _ in range(1000):
        # Steps of a run share the run's own luck, and both runs of a round share the minute's.
        minute = [chance.gauss(0, 0.05) for _ in range(rounds)]
        references = [1 + shared + chance.gauss(0, 0.03) for shared in minute]
        values = [truth * (1 + shared + chance.gauss(0, 0.03)) for shared in minute]
        found = change(references, values)
        assert found is not None
        held += found.low <= truth <= found.high
    assert 0.93 <= held / 1000 <= 0.98


def test_equal_runs_differ_beyond_noise_as_seldom_as_they_should() -> None:
    chance = random.Random(1)
    alarms = 0
    for _ in range(1000):
        references, values = ([chance.gauss(1, 0.1) for _ in range(4)] for _ in "ab")
        found = change(references, values)
        assert found is not None
        alarms += found.beyond_noise
    assert alarms <= 70


def test_numbers_that_never_vary_leave_no_doubt() -> None:
    found = change([10, 10, 10], [6, 6, 6])
    assert found is not None
    assert (found.low, found.ratio, found.high) == pytest.approx((0.6, 0.6, 0.6))
    assert found.beyond_noise
    same = change([7, 7], [7, 7])
    assert same is not None
    assert not same.beyond_noise


@pytest.mark.parametrize(("references", "values"), [([1.0], [1.0]), ([], []), ([1, 0], [1, 1])])
def test_too_few_rounds_give_no_change(references: list[float], values: list[float]) -> None:
    assert change(references, values) is None


def test_the_interval_of_a_median_is_between_values_and_holds_it() -> None:
    assert median_interval([3, 1, 2]) is None
    assert median_interval([6, 1, 2, 3, 4, 5]) == (1, 6)
    chance = random.Random(0)
    held = 0
    for _ in range(500):
        found = median_interval([chance.expovariate(1.0) for _ in range(25)])
        assert found is not None
        held += found[0] <= 0.6931 <= found[1]
    assert held / 500 >= 0.94


def test_the_tail_is_a_step_that_happened() -> None:
    assert percentile_95(list(range(1, 101))) == 95
    assert percentile_95([1.0] * 19) is None


def test_the_spread_of_runs_is_a_share_of_their_median() -> None:
    assert spread([1.0, 1.1, 0.95]) == pytest.approx(0.15)
    assert spread([2.0]) == spread([]) == 0.0


def test_students_t_falls_to_the_normal_quantile() -> None:
    quantiles = [student_t(degrees) for degrees in range(1, 40)]
    assert quantiles == sorted(quantiles, reverse=True)
    assert quantiles[1] == 4.303
    assert quantiles[-1] == 1.96
