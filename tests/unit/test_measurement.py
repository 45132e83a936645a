"""Measurements survive their JSON document, and metrics read them."""

from __future__ import annotations

import json

import pytest

from autotune.measurement import Environment, Measurement, Obtained, Outcome
from autotune.metrics import metric_values, objectives


def measurement(**changes: object) -> Measurement:
    values: dict[str, object] = {
        "settings": "expandable_segments:True",
        "obtained": Obtained.MEASURED,
        "outcome": Outcome.COMPLETED,
        "environment": Environment(gpu="NVIDIA H200", torch="2.11.0", tenants=("17 python (3 MiB)",)),
        "step_seconds": (0.2, 0.1, 0.9),
        "peak_allocated_bytes": 75,
        "peak_reserved_bytes": 100,
    }
    return Measurement(**{**values, **changes})  # type: ignore[arg-type]


def test_a_measurement_is_the_same_after_a_trip_through_json() -> None:
    original = measurement(reason="why", step_peak_reserved_bytes=(1, 2))
    assert Measurement.from_json(json.loads(json.dumps(original.to_json()))) == original


def test_a_newer_format_is_refused() -> None:
    with pytest.raises(ValueError, match="format 99"):
        Measurement.from_json({**measurement().to_json(), "format": 99})


def test_step_time_is_the_median_and_fragmentation_the_share_never_allocated() -> None:
    assert metric_values(measurement()) == {
        "peak_reserved_bytes": 100,
        "fragmentation": 0.25,
        "step_seconds": 0.2,
    }


def test_a_replay_has_driver_time_and_never_step_time() -> None:
    replayed = measurement(obtained=Obtained.REPLAYED, step_seconds=(), allocator_seconds=0.004)
    assert metric_values(replayed)["allocator_seconds"] == 0.004
    assert [metric.name for metric in objectives(Obtained.ESTIMATED)][2] == "allocator_seconds"
    assert "step_seconds" not in metric_values(replayed)


def test_an_out_of_memory_measurement_has_no_invented_values() -> None:
    failed = measurement(outcome=Outcome.OUT_OF_MEMORY, step_seconds=(), peak_reserved_bytes=None)
    assert metric_values(failed) == {}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"reason": "RuntimeError: boom"}, "RuntimeError: boom."),
        ({"reason": "Is it there?"}, "Is it there?"),
        ({"reason": "It ended. "}, "It ended."),
        ({"outcome": Outcome.TIMED_OUT}, "timed out."),
        ({"reason": "boom", "log": "a.log"}, "boom. Everything it printed is in a.log."),
    ],
)
def test_why_a_run_failed_is_whole_sentences(fields: dict[str, object], said: str) -> None:
    assert measurement(**fields).why == said
