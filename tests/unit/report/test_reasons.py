"""The reason given for a recommendation is true of it, and names what it was compared with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.measurement import Measurement, Obtained, Outcome
from autotune.report.reasons import why
from autotune.report.stored import Role, Row
from autotune.report.summary import Summary
from tests.fakes import measurement, row, summary


def timed(reserved: float, seconds: float, outcome: Outcome = Outcome.COMPLETED) -> Measurement:
    return measurement(reserved=reserved, seconds=[seconds] * 9, obtained=Obtained.MEASURED, outcome=outcome)


DEFAULT = row(0, "", Role.DEFAULT, measured=timed(10, 1))
FAILED = row(0, "", Role.DEFAULT, measured=timed(10, 1, Outcome.OUT_OF_MEMORY))
LONG = "max_split_size_mb:64,roundup_power2_divisions:[64:2,>:4]"
TWO = "up to 2.0 % slower counts as equal"


def other(number: int, reserved: float, seconds: float, settings: str = "max_split_size_mb:64") -> Row:
    return row(number, settings, measured=timed(reserved, seconds))


def reason(*rows: Row, limit: int | None = None) -> str:
    return said(summary(*rows, obtained=Obtained.MEASURED, memory_limit_bytes=limit))


def said(found: Summary) -> str:
    return why(found.choice) if found.choice is not None else ""


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([other(1, 7, 1)], f"as fast as the defaults ({TWO}), the one with the least memory among those."),
        (
            [other(1, 7, 1, LONG), other(2, 7.03, 1)],
            f"as fast as the defaults ({TWO}), the simplest settings within 0.5 % of the least memory among "
            "those.",
        ),
        (
            [other(1, 7, 1), other(2, 7.05, 0.9)],
            f"as fast as the defaults ({TWO}), faster than the one with the least memory among those, which "
            "saves less than 1 % more.",
        ),
        (
            [other(1, 6, 1.3)],
            f"nothing as fast as the defaults ({TWO}) saves 1 % of the memory; of what is slower this is "
            "most worth its price, as memory and time, relative to the defaults, multiply to 0.78.",
        ),
        (
            [other(1, 9, 1.3)],
            f"nothing as fast as the defaults ({TWO}) saves 1 % of the memory, and what is slower costs "
            "more in time than it saves.",
        ),
        ([other(1, 9.95, 0.5)], "nothing that was tried saves 1 % of the memory of the defaults."),
    ],
)
def test_each_rule_of_the_search_has_its_sentence(rows: list[Row], expected: str) -> None:
    assert reason(DEFAULT, *rows) == expected


def test_where_the_defaults_failed_the_fastest_is_named_in_their_place() -> None:
    assert reason(FAILED, other(1, 7, 1.01), other(2, 8, 1)).startswith("as fast as the fastest, trial 2 (")
    assert reason(FAILED, other(1, 7, 1)) == (
        "nothing that was tried saves 1 % of the memory of this one, the fastest."
    )


def test_under_a_limit_speed_decides_then_retries_then_memory() -> None:
    retried = other(2, 5, 0.5)
    retried = replace(retried, measurement=replace(retried.measurement, step_alloc_retries=(0, 1)))
    assert reason(DEFAULT, other(1, 7, 0.505, "a:1"), other(3, 8, 0.5), limit=1) == (
        f"under a memory limit speed decides: of those as fast as the fastest that fits (trial 3; {TWO}) "
        "this is the one with the least memory among those."
    )
    few = ") and with the fewest steps with allocation retries (0) "
    assert few in reason(DEFAULT, other(1, 7, 0.505, "a:1"), retried, limit=1)
    assert reason(DEFAULT, other(1, 9.95, 1), limit=1).endswith(" none needs 1 % less memory than this one.")


def test_noise_that_is_larger_is_named_as_such() -> None:
    again = replace(DEFAULT, number=2, measurement=timed(10, 1.08))
    assert " slower, the noise, counts as equal" in reason(DEFAULT, other(1, 7, 1), again)


@pytest.mark.parametrize(
    ("obtained", "seconds", "conditions", "expected"),
    [
        (
            Obtained.REPLAYED,
            0.0,
            {"recorded_seconds": 0.94},
            "up to 18.8 ms more driver time, 2 % of the rec",
        ),
        (Obtained.REPLAYED, 0.1, {}, "up to 2 % more driver time counts"),
        (Obtained.REPLAYED, 0.0, {}, "without any more driver time"),
        (Obtained.ESTIMATED, 0.0, {"recorded_steps": 20}, "up to 10 ms more driver time, 500 µs a step,"),
    ],
)
def test_what_counts_as_free_in_driver_time_is_said(
    obtained: Obtained, seconds: float, conditions: dict[str, object], expected: str
) -> None:
    found = summary(
        row(0, "", Role.DEFAULT, measured=measurement(reserved=10, seconds=seconds, obtained=obtained)),
        row(1, "a:1", measured=measurement(reserved=6, seconds=seconds, obtained=obtained)),
        obtained=obtained,
        **conditions,
    )
    assert expected in said(found)
