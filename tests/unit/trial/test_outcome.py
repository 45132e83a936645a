"""From a worker's answer to a Measurement, with answers written down here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autotune.measurement import Environment, Measurement, Obtained, Outcome
from autotune.settings import AllocatorSettings
from autotune.trial.outcome import difference, measurement_of
from autotune.trial.runner import Job

MIB = 1 << 20
JOB = Job(script=Path("train.py"), warmup_steps=2, measured_steps=3)


def boundary(number: int) -> dict[str, Any]:
    return {"seconds": number / 10, "reserved_bytes": number * MIB, "num_device_alloc": 10 * number,
            "num_device_free": number, "num_alloc_retries": 0}  # fmt: skip


def reported(**changes: Any) -> dict[str, Any]:
    """What `_snapshot()` says of the defaults."""
    return {
        "max_split_size": -1, "garbage_collection_threshold": 0.0, "expandable_segments": False,
        "roundup_power2_divisions": {str(1 << index): 0 for index in range(16)}, **changes,
    }  # fmt: skip


def answer(steps: int = 5, **changes: Any) -> dict[str, Any]:
    return {
        "outcome": "completed", "reason": None, "notes": [], "torch": "2.11.0+cu130",
        "boundaries": [boundary(number) for number in range(1, steps + 1)],
        "launched": 10.0, "script_began": 10.5, "script_ended": 12.5,
        "peaks": {"peak_reserved_bytes": 9 * MIB, "peak_allocated_bytes": 6 * MIB},
        "counts": {"num_device_alloc": 52, "num_device_free": 6, "num_alloc_retries": 1, "num_ooms": 0},
        "allocator_settings": reported(), **changes,
    }  # fmt: skip


def measured(given: dict[str, Any], settings: str = "", job: Job = JOB) -> Measurement:
    return measurement_of(
        given, settings=AllocatorSettings.parse(settings), job=job, obtained=Obtained.MEASURED,
        environment=Environment(gpu="G"), log="trial.log",
    )  # fmt: skip


def test_steps_after_warmup_are_measured_and_counts_are_taken_from_its_end() -> None:
    found = measured(answer())
    assert found.outcome is Outcome.COMPLETED
    assert (found.warmup_steps, found.step_seconds) == (2, (0.3, 0.4, 0.5))
    assert found.step_peak_reserved_bytes == (MIB, 2 * MIB, 3 * MIB, 4 * MIB, 5 * MIB)
    assert (found.steady_device_alloc, found.steady_device_free, found.steady_retries) == (32, 4, 1)
    assert (found.num_device_alloc, found.peak_reserved_bytes) == (52, 9 * MIB)
    assert (found.startup_seconds, found.script_seconds) == (0.5, 2.0)
    assert not found.whole_run_is_one_step and found.notes == ()


def test_a_script_that_ends_during_warmup_has_half_of_its_steps_measured_and_is_told() -> None:
    found = measured(answer(steps=2))
    assert (found.warmup_steps, found.step_seconds) == (1, (0.2,))
    assert "made 2 steps" in found.notes[0]


def test_without_steps_the_whole_run_is_one() -> None:
    found = measured(answer(steps=0))
    assert found.whole_run_is_one_step
    assert (found.warmup_steps, found.step_seconds, found.steady_device_alloc) == (0, (2.0,), 52)


def test_a_failed_run_keeps_what_it_reached() -> None:
    found = measured(answer(steps=1, outcome="out_of_memory", reason="CUDA out of memory."))
    assert (found.outcome, found.reason) == (Outcome.OUT_OF_MEMORY, "CUDA out of memory.")
    assert found.step_seconds == () and found.steady_device_alloc is None
    assert found.peak_reserved_bytes == 9 * MIB
    assert not found.whole_run_is_one_step


def test_an_answer_that_the_launcher_gave_for_a_dead_child_is_enough() -> None:
    found = measured({"outcome": "timed_out", "reason": "Too slow.", "launched": 10.0})
    assert (found.outcome, found.reason, found.peak_reserved_bytes) == (Outcome.TIMED_OUT, "Too slow.", None)
    assert found.startup_seconds is None and found.settings_in_effect is None


def test_settings_that_are_not_in_effect_reject_the_trial_with_the_option() -> None:
    found = measured(answer(), "expandable_segments:True,max_split_size_mb:128")
    assert found.outcome is Outcome.REJECTED
    assert found.reason == (
        "The settings were not in effect: expandable_segments is False; max_split_size_mb is unlimited."
    )
    assert found.settings_in_effect == ""


@pytest.mark.parametrize(
    ("settings", "effect"),
    [
        ("", {}),
        ("expandable_segments:False", {}),
        ("expandable_segments:True", {"expandable_segments": True}),
        ("max_split_size_mb:128", {"max_split_size": 128 * MIB}),
        ("max_split_size_mb:128", {"max_split_size": 128 * MIB, "roundup_power2_divisions": None}),
        ("garbage_collection_threshold:0.8", {"garbage_collection_threshold": 0.8}),
        (
            "roundup_power2_divisions:8",
            {"roundup_power2_divisions": {str(1 << index): 8 for index in range(16)}},
        ),
        ("", {"roundup_power2_divisions": {str(1 << index): 1 for index in range(16)}}),
    ],
)
def test_settings_that_are_in_effect_differ_in_nothing(settings: str, effect: dict[str, Any]) -> None:
    assert difference(AllocatorSettings.parse(settings), reported(**effect), (2, 11)) == []
    found = measured(answer(allocator_settings=reported(**effect)), settings)
    assert found.outcome is Outcome.COMPLETED
    asked = AllocatorSettings.parse(settings).canonical()
    assert AllocatorSettings.parse(found.settings_in_effect or "").canonical() == asked


def test_an_option_that_the_allocator_does_not_report_is_taken_as_asked() -> None:
    found = measured(answer(), "large_segment_size_mb:64")
    assert (found.outcome, found.settings_in_effect) == (Outcome.COMPLETED, "large_segment_size_mb:64")
