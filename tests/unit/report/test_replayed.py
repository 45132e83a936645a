"""Replays as text: what is said of an origin, of failures, and how it fits."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.allocator.result import ReplayResult
from autotune.allocator.selfcheck import SelfCheck
from autotune.measurement import Outcome
from autotune.report.replayed import Replays, failure_sentences, origin_sentence, print_replays
from autotune.settings import AllocatorSettings
from autotune.trace import Recording, Trace
from tests import terminal

MIB = 1 << 20
LONG = (
    "max_split_size_mb:128,roundup_power2_divisions:[256:1,512:2,1024:4,>:8],garbage_collection_threshold:0.8"
)


def trace(*, oom_size: int | None = None, time_us: int = 0, **recording: object) -> Trace:
    rows = np.arange(3)
    return Trace(
        is_alloc=rows >= 0,
        block=rows,
        size=np.full(3, 500 * MIB),
        stream=rows * 0,
        pool=rows * 0,
        time_us=np.full(3, time_us),
        oom_size=oom_size,
        recording=Recording(**recording),  # type: ignore[arg-type]
    )


def result(*, failed: int | None = None, may_adapt: bool = False, reserved: int = 1000 * MIB) -> ReplayResult:
    return ReplayResult(
        settings=AllocatorSettings(),
        engine="model",
        may_adapt=may_adapt,
        failed_operation=failed,
        outcome=Outcome.COMPLETED if failed is None else Outcome.OUT_OF_MEMORY,
        operations=3,
        peak_requested_bytes=1,
        peak_allocated_bytes=800 * MIB,
        peak_active_bytes=1,
        peak_reserved_bytes=reserved,
        reserved_bytes_at_end=1,
        num_device_alloc=123_456,
        num_device_free=1,
        num_alloc_retries=9,
        seconds=0.1,
    )


def replays(*results: ReplayResult, settings: tuple[str, ...] = ("",), of: Trace | None = None) -> Replays:
    return Replays(
        file="trace.npz",
        trace=of or trace(),
        settings=settings,
        results=results,
        fits=[24 << 30] * len(results),
        check=SelfCheck(reason="the trace was recorded without a GPU"),
        torch_version=(2, 11),
        device_total=150_109_880_320,
        memory_limit=None,
    )


def printed(what: Replays) -> str:
    return terminal.printed(lambda console: print_replays(what, console))


def test_nothing_is_wider_than_80_columns_even_with_long_settings_and_large_numbers() -> None:
    text = printed(replays(result(), result(failed=2), settings=("", LONG)))
    assert max(map(len, text.splitlines())) <= 80
    assert "123,457" in text and "24.0 GiB" in text


def test_an_estimate_is_called_one_in_the_first_sentence() -> None:
    assert "an ESTIMATE" in origin_sentence("f", trace(estimated=True))
    assert "ESTIMATE" not in origin_sentence("f", trace(gpu="NVIDIA H200"))


def test_the_origin_names_gpu_torch_day_and_settings() -> None:
    sentence = origin_sentence(
        "f",
        trace(
            gpu="NVIDIA H200", torch="2.11.0", settings="max_split_size_mb:64", time_us=1_796_096_843_660_267
        ),
    )
    for part in ("NVIDIA H200", "torch 2.11.0", "on 2026-12-01", "under max_split_size_mb:64"):
        assert part in sentence


@pytest.mark.parametrize("time_us", [0, 5_000_000, (1 << 63) - 1])
def test_times_that_are_no_calendar_name_no_day(time_us: int) -> None:
    assert origin_sentence("f", trace(time_us=time_us)).endswith("an unnamed torch.")


def test_a_failure_names_the_operation_and_its_size() -> None:
    (sentence,) = failure_sentences(replays(result(failed=1)))
    assert sentence == "(PyTorch's defaults) ran out of memory at operation 1, which asked for 500.0 MiB."


def test_a_workspace_that_fails_says_that_the_script_may_adapt() -> None:
    (sentence,) = failure_sentences(replays(result(failed=1, may_adapt=True)))
    assert "the script may adapt" in sentence


def test_failing_where_the_recorded_run_failed_is_said() -> None:
    (sentence,) = failure_sentences(replays(result(failed=2), of=trace(oom_size=500 * MIB)))
    assert "So did the recorded run" in sentence


def test_changes_are_shown_against_the_first_settings_and_only_between_completed_replays() -> None:
    text = printed(replays(result(), result(reserved=500 * MIB), settings=("", "expandable_segments:True")))
    assert "−50.0 %" in text
    text = printed(
        replays(result(failed=1), result(reserved=500 * MIB), settings=("", "expandable_segments:True"))
    )
    assert "50.0 %" not in text


def test_the_self_check_is_always_shown() -> None:
    assert "Self-check: not possible, the trace was recorded without a GPU." in " ".join(
        printed(replays(result())).split()
    )
