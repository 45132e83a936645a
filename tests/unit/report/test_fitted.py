"""The answer of `fit`, as a person and as a program reads it."""

from __future__ import annotations

from dataclasses import replace

from autotune.measurement import Obtained
from autotune.report.fitted import Fitted, Largest, document, print_fitted
from autotune.settings import AllocatorSettings
from autotune.units import GIB
from tests.fakes import H200, measurement
from tests.terminal import printed


def answer(
    settings: str, value: int | None, *, seconds: float = 0.13, retries: tuple[int, ...] = ()
) -> Largest:
    found = measurement(settings, reserved=7.99, seconds=[seconds] * 4, obtained=Obtained.MEASURED)
    return Largest(
        settings=AllocatorSettings.parse(settings),
        value=value,
        at_the_end=False,
        measurement=None if value is None else replace(found, warmup_steps=1, step_alloc_retries=retries),
        runs=4,
    )


def fitted(*answers: Largest) -> Fitted:
    return Fitted(
        script="train.py",
        argument="--batch-size {}",
        values=range(512, 8193, 256),
        memory_limit=8 * GIB,
        obtained=Obtained.MEASURED,
        environment=H200,
        answers=answers,
    )


def text(found: Fitted) -> str:
    return printed(lambda console: print_fitted(found, console))


def test_settings_stand_on_one_line_of_eighty_columns_and_rates_are_whole_numbers() -> None:
    lines = text(fitted(answer("expandable_segments:True", 2560), answer("", 2304))).splitlines()
    assert max(map(len, lines)) <= 80
    (line,) = [line for line in lines if "expandable_segments:True" in line]
    assert line.split() == ["expandable_segments:True", "2560", "7.99", "GiB", "130", "ms", "19,692", "4"]
    assert "memory limit 8.00 GiB" in " ".join(" ".join(lines).split())


def test_a_value_that_runs_by_retries_alone_is_told() -> None:
    calm, retrying = answer("", 2304, retries=(3, 0, 0, 0)), answer("", 2560, retries=(0, 1, 0, 2))
    assert "retries" not in text(fitted(calm))  # those of the warm-up do not count
    assert "With 2560 under the defaults 2 measured steps contain allocation retries" in " ".join(
        text(fitted(retrying)).split()
    )
    assert [one["steps_with_retries"] for one in document(fitted(calm, retrying))["results"]] == [0, 2]


def test_where_nothing_runs_it_says_so() -> None:
    said = text(fitted(answer("", None)))
    assert "Not even 512 runs under any of the settings" in " ".join(said.split())
    assert document(fitted(answer("", None)))["results"][0]["largest"] is None
