"""The front, against its definition."""

from __future__ import annotations

import random

import pytest

from autotune.report.pareto import dominates, front


def test_a_row_that_is_beaten_everywhere_is_not_on_the_front() -> None:
    assert front({0: (1.0, 1.0, 1.0), 1: (2.0, 1.0, 1.0), 2: (0.5, 3.0, 1.0)}) == [0, 2]


def test_equal_rows_are_all_on_the_front() -> None:
    assert front({0: (1.0, 2.0), 1: (1.0, 2.0), 2: (1.0, 3.0)}) == [0, 1]


def test_nothing_dominates_itself() -> None:
    assert not dominates((1.0, 2.0), (1.0, 2.0))


def test_an_empty_study_has_an_empty_front() -> None:
    assert front({}) == []


@pytest.mark.parametrize("seed", range(20))
def test_the_front_is_exactly_what_nothing_dominates(seed: int) -> None:
    chance = random.Random(seed)
    points = {key: tuple(float(chance.randint(0, 6)) for _ in range(3)) for key in range(60)}
    found = front(points)
    for key, point in points.items():
        beaten = any(
            all(a <= b for a, b in zip(other, point, strict=True))
            and any(a < b for a, b in zip(other, point, strict=True))
            for other in points.values()
        )
        assert (key in found) != beaten
