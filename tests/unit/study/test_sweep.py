"""Sweeps: every option, legal values only, and only where it can act."""

from __future__ import annotations

import pytest

from autotune.errors import UsageError
from autotune.measurement import Environment, Obtained, Outcome
from autotune.report.swept import Swept, document, figure
from autotune.settings import OPTIONS, AllocatorSettings
from autotune.study.sweep import VALUES, settings_of, sweep
from tests.fakes import FakeRunner, measurement

NONE = AllocatorSettings()
SPLIT = AllocatorSettings(max_split_size_mb=2048)


def test_every_tunable_option_can_be_swept_with_its_own_values() -> None:
    assert set(VALUES) == {option.name for option in OPTIONS.values() if option.tunable}
    for option, values in VALUES.items():
        base = SPLIT if option == "max_non_split_rounding_mb" else NONE
        found = settings_of(option, values, base, (2, 14), limited=True)
        assert len(set(map(str, found))) == len(values)


@pytest.mark.parametrize(
    ("option", "values", "base", "words"),
    [
        ("nonsense", ["1"], NONE, "no option to sweep"),
        ("garbage_collection_threshold", ["0.8"], NONE, "memory limit"),
        ("max_non_split_rounding_mb", ["64"], NONE, "--base"),
        ("max_split_size_mb", ["64"], SPLIT, "already"),
        ("max_split_size_mb", ["3"], NONE, "max_split_size_mb:3"),
        ("roundup_power2_divisions", ["3"], NONE, "roundup_power2_divisions:3"),
    ],
)
def test_what_cannot_act_is_refused(
    option: str, values: list[str], base: AllocatorSettings, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        settings_of(option, values, base, (2, 14), limited=False)


def test_the_base_is_measured_first_and_failures_stay_in_the_table() -> None:
    runner = FakeRunner({"max_split_size_mb:64": measurement(outcome=Outcome.OUT_OF_MEMORY)})
    rows = sweep(runner, NONE, settings_of("max_split_size_mb", ["64", "128"], NONE, (2, 14), limited=False))
    assert runner.asked == ["", "max_split_size_mb:64", "max_split_size_mb:128"]
    swept = Swept(
        option="max_split_size_mb", subject="gan.npz", obtained=Obtained.REPLAYED, environment=Environment(),
        labels=("(not set)", "64", "128"), rows=tuple(rows),
    )  # fmt: skip
    results = document(swept)["results"]
    assert [result["value"] for result in results] == [None, "64", "128"]
    assert [result["outcome"] for result in results] == ["completed", "out_of_memory", "completed"]
    assert [list(trace.x) for trace in figure(swept).data] == [["(not set)", "128"]] * 2
