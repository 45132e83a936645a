"""max_split_size_mb and max_non_split_rounding_mb: blocks that are not split, and whom they serve."""

from __future__ import annotations

import pytest

from tests.traces import MIB, Program, run


@pytest.mark.parametrize(("cached", "device_allocs"), [(62, 1), (64, 2)])
def test_a_smaller_request_takes_no_block_of_the_split_size(cached: int, device_allocs: int) -> None:
    program = Program()
    program.cache(cached * MIB)
    program.alloc(30 * MIB)
    assert run(program, "max_split_size_mb:64").num_device_alloc == device_allocs


def test_a_block_is_given_whole_to_a_request_of_the_split_size() -> None:
    program = Program()
    program.cache(80 * MIB)
    program.alloc(64 * MIB)
    assert run(program, "max_split_size_mb:64").peak_allocated_bytes == 80 * MIB


def test_a_request_just_below_the_split_size_is_split_from_its_larger_segment() -> None:
    program = Program()
    program.alloc(20.5 * MIB)
    assert run(program, "max_split_size_mb:21").peak_allocated_bytes == 20.5 * MIB


@pytest.mark.parametrize(
    ("requested", "cached", "reused"),
    [(51 * MIB, 70, True), (51 * MIB, 72, False), (52 * MIB, 72, False), (52 * MIB + 1, 72, True)],
)
def test_an_unsplittable_block_serves_requests_less_than_20_MiB_smaller(
    requested: int, cached: int, reused: bool
) -> None:
    program = Program()
    program.cache(cached * MIB)
    program.alloc(requested)
    assert run(program, "max_split_size_mb:32").num_device_alloc == (1 if reused else 2)


@pytest.mark.parametrize(("cached", "reused"), [(90, True), (92, False)])
def test_the_non_split_rounding_replaces_those_20_MiB(cached: int, reused: bool) -> None:
    program = Program()
    program.cache(cached * MIB)
    program.alloc(51 * MIB)
    settings = "max_split_size_mb:32,max_non_split_rounding_mb:40"
    assert run(program, settings).num_device_alloc == (1 if reused else 2)


@pytest.mark.parametrize(("cached", "reused"), [(98, True), (100, False)])
def test_the_large_segment_size_is_the_default_of_the_non_split_rounding(cached: int, reused: bool) -> None:
    program = Program()
    program.cache(cached * MIB)
    program.alloc(67 * MIB)
    settings = "max_split_size_mb:32,large_segment_size_mb:32"
    assert run(program, settings).num_device_alloc == (1 if reused else 2)


def test_without_a_split_size_the_non_split_rounding_has_no_effect() -> None:
    program = Program()
    program.cache(500 * MIB)
    program.alloc(11 * MIB)
    assert run(program, "max_non_split_rounding_mb:40").num_device_alloc == 1
