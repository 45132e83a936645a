"""Behaviour: equal where the allocator does the same, different where anything it does differs."""

from __future__ import annotations

import pytest

from autotune.allocator.behaviour import behaviour
from tests.traces import MIB, Program, run


def fragmenting() -> Program:
    program = Program()
    program.cache(30 * MIB, 50 * MIB, 70 * MIB)
    program.alloc(35 * MIB)
    return program


def key(settings: str, *, memory_limit: int | None = None) -> str:
    return behaviour(run(fragmenting(), settings, memory_limit=memory_limit))


@pytest.mark.parametrize(
    "settings", ["max_split_size_mb:500", "large_segment_size_mb:64", "garbage_collection_threshold:0.5"]
)
def test_options_that_change_nothing_on_this_trace_share_the_behaviour_of_the_defaults(settings: str) -> None:
    assert key(settings) == key("")


@pytest.mark.parametrize(
    "settings", ["max_split_size_mb:40", "roundup_power2_divisions:2", "expandable_segments:True"]
)
def test_options_that_change_something_have_a_behaviour_of_their_own(settings: str) -> None:
    assert key(settings) != key("")


def test_the_same_calls_at_another_operation_are_another_behaviour() -> None:
    early, late = Program(), Program()
    kept = early.alloc(1 * MIB)
    early.alloc(30 * MIB)
    early.free(kept)
    kept = late.alloc(1 * MIB)
    late.free(kept)
    late.alloc(30 * MIB)
    assert run(early).num_device_alloc == run(late).num_device_alloc
    assert behaviour(run(early)) != behaviour(run(late))


def test_running_out_of_memory_is_another_behaviour() -> None:
    assert key("", memory_limit=100 * MIB) != key("")
