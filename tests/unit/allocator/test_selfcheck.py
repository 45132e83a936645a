"""The self-check: when a trace is believed, when not, and what it says then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autotune.allocator.selfcheck import SelfCheck, recorded_limit, self_check
from autotune.trace import Trace, load

DATA = Path(__file__).parents[2] / "data"


def with_recording(trace: Trace, **changes: object) -> Trace:
    return replace(trace, recording=replace(trace.recording, **changes))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def expandable() -> Trace:
    return load(DATA / "expandable.pickle.gz")


def test_a_real_recording_is_reproduced_to_the_byte_under_its_own_settings(expandable: Trace) -> None:
    check = self_check(expandable)
    assert check.replayed_bytes == check.observed_bytes == 1_925_185_536
    assert check.trusted and check.to_json()["reason"] is None


def test_a_recording_that_ended_out_of_memory_is_checked_within_the_memory_it_had() -> None:
    check = self_check(load(DATA / "oom.pickle.gz"))
    assert check.difference == 0


def test_a_wrong_prediction_is_not_trusted_and_says_why(expandable: Trace) -> None:
    check = self_check(with_recording(expandable, settings=""))
    assert check.trusted is False
    assert "+31.3 %" in check.sentence() and "do not trust these predictions" in check.sentence()


def test_older_blocks_are_the_likely_reason_where_there_are_some(expandable: Trace) -> None:
    check = self_check(with_recording(replace(expandable, num_preexisting=7), settings=""))
    assert "7 blocks are older than the recording" in check.sentence()


def test_a_survived_out_of_memory_error_is_the_likely_reason_where_there_was_one(expandable: Trace) -> None:
    observed = {**expandable.recording.observed, "num_ooms": 1}
    check = self_check(with_recording(expandable, settings="", observed=observed))
    assert "survived an out-of-memory error" in check.sentence()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"estimated": True}, "recorded without a GPU"),
        ({"observed": {}}, "does not say what the recorded run reserved"),
        ({"settings": "large_segment_size_mb:40", "torch": "2.6"}, "cannot be replayed"),
    ],
)
def test_where_nothing_can_be_compared_the_reason_is_said(
    changes: dict[str, object], sentence: str, expandable: Trace
) -> None:
    check = self_check(with_recording(expandable, **changes))
    assert check.trusted is None
    assert sentence in check.sentence()


@pytest.mark.parametrize(
    ("replayed", "trusted"), [(100_000, True), (101_000, True), (101_001, False), (98_999, False)]
)
def test_one_percent_is_the_line(replayed: int, trusted: bool) -> None:
    assert SelfCheck(observed_bytes=100_000, replayed_bytes=replayed).trusted is trusted


PEAKS = {"peak_reserved_bytes": 900, "reserved_bytes_at_end": 800}


@pytest.mark.parametrize(
    ("oom_size", "observed", "fraction", "limit"),
    [
        (None, PEAKS, None, None),
        # The device had less left than was asked for: it was full.
        (500, {**PEAKS, "device_free_bytes_at_oom": 300}, None, 1100),
        # It had more: a fraction that the file does not name stopped the run.
        (500, {**PEAKS, "device_free_bytes_at_oom": 9000}, None, 900),
        (500, PEAKS, None, 900),
        (500, PEAKS, 0.5, 2000),
        (None, {}, 0.25, 1000),
    ],
)
def test_the_recorded_limit_is_what_the_trace_tells(
    oom_size: int | None,
    observed: dict[str, int],
    fraction: float | None,
    limit: int | None,
    expandable: Trace,
) -> None:
    trace = with_recording(expandable, observed=observed, memory_fraction=fraction, device_total_bytes=4000)
    assert recorded_limit(replace(trace, oom_size=oom_size)) == limit
