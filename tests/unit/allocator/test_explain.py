"""Where the bytes are at the moment of peak reserved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autotune.allocator import explain, replay
from autotune.allocator.explain import KINDS, Explanation, Share
from autotune.settings import AllocatorSettings
from autotune.trace import Trace, load
from tests.traces import GIB, MIB, Program

DATA = Path(__file__).parents[2] / "data"


def explained(
    program: Program, settings: str = "", *, memory_limit: int | None = None, device_total: int = 4 * GIB
) -> Explanation:
    return explain(
        program.trace(),
        AllocatorSettings.parse(settings),
        memory_limit=memory_limit,
        device_total=device_total,
        torch_version=(2, 14),
    )


def test_every_kind_of_byte_is_told_apart() -> None:
    program = Program()
    program.cache(30 * MIB)  # stays cached as a whole
    program.alloc(5 * MIB - 100)  # 5 of 20 MiB: the rest is a remainder, and 100 bytes are rounding
    program.alloc(50 * MIB, stream=1)
    assert explained(program).shares == (
        Share(
            pool="large",
            stream=0,
            live_bytes=5 * MIB - 100,
            rounding_bytes=100,
            split_remainder_bytes=25 * MIB,
        ),
        Share(pool="large", stream=1, live_bytes=50 * MIB),
    )


def test_a_cached_segment_can_be_given_back() -> None:
    program = Program()
    program.cache(30 * MIB, 40 * MIB)
    program.alloc(50 * MIB)
    assert explained(program).total("cached_bytes") == 70 * MIB


def test_free_pages_can_be_given_back_and_parts_of_pages_cannot() -> None:
    program = Program()
    _, middle, _ = (program.alloc(size * MIB) for size in (3, 50, 7))
    program.free(middle)
    program.alloc(60 * MIB)
    (share,) = explained(program, "expandable_segments:True").shares
    assert (share.cached_bytes, share.page_rounding_bytes) == (20 * MIB, 30 * MIB)
    assert share.reserved_bytes == 120 * MIB


def test_small_and_private_pools_are_shown_apart() -> None:
    program = Program()
    program.alloc(1000)
    program.alloc(1000, pool=1)
    assert [share.pool for share in explained(program).shares] == ["small", "small (private 1)"]


def test_the_segments_that_lose_most_are_named_with_their_largest_live_block() -> None:
    program = Program()
    program.cache(100 * MIB)
    program.alloc(20 * MIB)
    pinning = program.alloc(30 * MIB)
    program.alloc(3 * MIB, stream=1)
    worst, next_worst = explained(program).pinned_segments
    assert (worst.segment_bytes, worst.free_bytes, worst.num_live_blocks) == (100 * MIB, 50 * MIB, 2)
    assert (worst.block, worst.block_bytes, worst.since_operation) == (pinning, 30 * MIB, 3)
    assert (next_worst.segment_bytes, next_worst.stream) == (20 * MIB, 1)


def test_a_peak_in_the_middle_of_an_operation_is_explained_as_it_was() -> None:
    program = Program()
    front, behind = program.alloc(20 * MIB), program.alloc(20 * MIB)
    program.cache(20 * MIB, stream=2)
    program.free(front)
    other = program.alloc(60 * MIB, stream=1)  # fits once the page in front and that of stream 2 are unmapped
    program.free(other, behind)
    program.alloc(70 * MIB)  # maps the page in front, then fails, unmaps everything, and maps 80 MiB
    explanation = explained(program, "expandable_segments:True", device_total=115 * MIB)
    assert (explanation.peak_reserved_bytes, explanation.operation) == (100 * MIB, 8)
    assert explanation.shares == (
        Share(pool="large", stream=0, cached_bytes=40 * MIB),
        Share(pool="large", stream=1, cached_bytes=60 * MIB),
    )


@pytest.fixture(scope="module")
def gan() -> Trace:
    return load(DATA / "gan.npz")


@pytest.mark.parametrize("fraction", [None, 0.0084, 0.0076])
@pytest.mark.parametrize(
    "settings", ["", "expandable_segments:True", "max_split_size_mb:64", "garbage_collection_threshold:0.8"]
)
def test_the_parts_add_up_to_peak_reserved(gan: Trace, settings: str, fraction: float | None) -> None:
    limit = None if fraction is None else int(fraction * 150_109_880_320)
    parsed = AllocatorSettings.parse(settings)
    explanation = explain(gan, parsed, memory_limit=limit)
    peak = replay(gan, parsed, memory_limit=limit).peak_reserved_bytes
    assert explanation.peak_reserved_bytes == peak
    assert sum(share.reserved_bytes for share in explanation.shares) == peak
    assert sum(explanation.total(kind) for kind in KINDS) == peak


@pytest.mark.parametrize("text", ["", "expandable_segments:True", "large_segment_size_mb:1100"])
def test_the_fullest_moment_loses_no_more_than_the_gap_to_the_live_peak(gan: Trace, text: str) -> None:
    settings = AllocatorSettings.parse(text)
    first, fullest = (explain(gan, settings, fullest=one) for one in (False, True))
    result = replay(gan, settings)
    for found in (first, fullest):
        assert sum(found.total(kind) for kind in KINDS) == result.peak_reserved_bytes
    assert fullest.operation >= first.operation
    assert fullest.total("live_bytes") >= first.total("live_bytes")
    if text.startswith("large"):
        assert fullest.total("live_bytes") == gan.peak_requested_bytes > first.total("live_bytes")


def test_the_document_is_json_and_holds_the_totals(gan: Trace) -> None:
    explanation = explain(gan, AllocatorSettings())
    document = json.loads(json.dumps(explanation.to_json()))
    assert sum(document[kind] for kind in KINDS) == document["peak_reserved_bytes"]
    assert document["pinned_segments"][0].keys() >= {"block", "segment_bytes", "since_operation"}


def test_an_empty_trace_has_nothing_to_explain() -> None:
    assert explained(Program()).shares == ()
