"""What matters, on real traces: every sentence is a replay's result."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from autotune.allocator import replay
from autotune.allocator.conditions import Conditions
from autotune.report.matters import Matters, what_matters
from autotune.report.matters_text import sentences
from autotune.settings import AllocatorSettings
from autotune.trace import load
from autotune.units import MIB
from tests.traces import Program

DATA = Path(__file__).parents[2] / "data"
TUNED = "expandable_segments:True,large_segment_size_mb:12"


@cache
def gan(memory_limit: int | None = None) -> Matters:
    trace = load(DATA / "gan.npz")
    found = what_matters(
        trace, AllocatorSettings.parse(TUNED), Conditions.of(trace, memory_limit, None, (2, 14))
    )
    assert found is not None
    return found


def test_the_gap_is_between_the_tuned_and_the_live_peak() -> None:
    trace = load(DATA / "gan.npz")
    result = replay(trace, AllocatorSettings.parse(TUNED), torch_version=(2, 14))
    assert gan().tuned_reserved_bytes == result.peak_reserved_bytes
    assert gan().live_bytes == result.peak_requested_bytes
    assert sum(share.reserved_bytes for share in gan().at_peak.shares) == result.peak_reserved_bytes


def test_no_setting_goes_below_the_live_peak() -> None:
    trace = load(DATA / "gnn.npz")
    rounded = AllocatorSettings.parse("roundup_power2_divisions:2")
    found = what_matters(trace, rounded, Conditions.of(trace, None, None, (2, 14)))
    assert found is not None
    for text in ("", "expandable_segments:True", "expandable_segments:True,large_segment_size_mb:12"):
        result = replay(trace, AllocatorSettings.parse(text), torch_version=(2, 14))
        assert result.peak_reserved_bytes >= found.live_bytes


def test_leaving_one_option_out_is_replayed() -> None:
    trace = load(DATA / "gan.npz")
    for one in gan().left_out:
        alone = replay(trace, AllocatorSettings.parse(one.settings), torch_version=(2, 14))
        assert one.peak_reserved_bytes == alone.peak_reserved_bytes
        assert one.change_bytes == alone.peak_reserved_bytes - gan().tuned_reserved_bytes
    assert {one.option for one in gan().left_out} == {"expandable_segments", "large_segment_size_mb"}


def test_garbage_collection_without_a_limit_is_named_with_its_reason() -> None:
    idle = {one.option: one.reason for one in gan().options if not one.changes_something}
    assert "only under a memory limit" in (idle["garbage_collection_threshold"] or "")
    assert any(line.startswith("garbage_collection_threshold changes nothing") for line in sentences(gan()))


def test_an_option_that_acts_is_not_called_idle() -> None:
    acting = {one.option for one in gan().options if one.changes_something}
    assert {"expandable_segments", "max_split_size_mb", "roundup_power2_divisions"} <= acting


def test_small_requests_leave_split_and_segment_sizes_idle() -> None:
    program = Program()
    blocks = [program.alloc(40_000) for _ in range(50)]
    for block in blocks:
        program.free(block)
    trace = program.trace()
    found = what_matters(trace, AllocatorSettings(), Conditions.of(trace, None, None, (2, 14)))
    assert found is not None
    idle = {one.option: one.reason for one in found.options if not one.changes_something}
    assert idle["max_split_size_mb"] == "no request reaches 20 MB, the smallest size that it takes"
    assert idle["large_segment_size_mb"] == "no request lies between 1 and 10 MiB, where it acts"


def test_settings_that_do_not_complete_have_nothing_to_say() -> None:
    trace = load(DATA / "gan.npz")
    conditions = Conditions.of(trace, 64 * MIB, None, (2, 14))
    assert what_matters(trace, AllocatorSettings(), conditions) is None


@pytest.mark.parametrize("limit", [None, 4 << 30])
def test_every_sentence_ends_and_none_is_empty(limit: int | None) -> None:
    lines = sentences(gan(limit))
    assert len(lines) >= 3
    assert all(line.endswith(".") and "None" not in line for line in lines)


def test_the_gap_says_that_it_counts_other_bytes_than_fragmentation() -> None:
    assert "in bytes as requested (fragmentation counts them rounded up)" in sentences(gan())[0]
