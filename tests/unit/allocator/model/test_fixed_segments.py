"""Fixed segments: what is asked of the driver, which free block serves a request, and what is split off."""

from __future__ import annotations

import pytest

from tests.traces import MIB, Program, run


@pytest.mark.parametrize(
    ("requested", "reserved"),
    [
        (1, 2),
        (1 * MIB, 2),
        (1 * MIB + 1, 20),
        (10 * MIB - 512, 20),
        (10 * MIB - 511, 10),
        (10 * MIB, 10),
        (10 * MIB + 1, 12),
        (21 * MIB, 22),
    ],
)
def test_segments_are_2_MiB_then_20_MiB_then_as_large_as_the_request(requested: int, reserved: int) -> None:
    program = Program()
    program.alloc(requested)
    result = run(program)
    assert result.peak_reserved_bytes == reserved * MIB
    assert result.num_device_alloc == 1


def test_the_large_segment_size_serves_requests_below_10_MiB_alone() -> None:
    program = Program()
    program.alloc(5 * MIB)
    program.alloc(30 * MIB)
    program.alloc(1000)
    assert run(program, "large_segment_size_mb:32").peak_reserved_bytes == (32 + 30 + 2) * MIB


def test_a_small_request_never_uses_the_large_pool() -> None:
    program = Program()
    program.cache(5 * MIB)
    program.alloc(1000)
    assert run(program).peak_reserved_bytes == 22 * MIB


def test_the_smallest_free_block_that_suffices_is_taken() -> None:
    program = Program()
    program.cache(30 * MIB, 12 * MIB, 50 * MIB)
    program.alloc(11 * MIB)
    program.alloc(28 * MIB)
    program.alloc(50 * MIB)
    assert run(program).num_device_alloc == 3


@pytest.mark.parametrize(("requested", "allocated"), [(12 * MIB - 512, 12 * MIB), (11 * MIB, 12 * MIB)])
def test_a_remainder_of_up_to_1_MiB_stays_in_a_large_block(requested: int, allocated: int) -> None:
    program = Program()
    program.alloc(requested)
    assert run(program).peak_allocated_bytes == allocated


def test_a_remainder_above_1_MiB_is_split_off_a_large_block() -> None:
    program = Program()
    program.alloc(11 * MIB - 512)
    assert run(program).peak_allocated_bytes == 11 * MIB - 512


def test_a_remainder_of_512_bytes_is_split_off_a_small_block() -> None:
    program = Program()
    first, second = program.alloc(1 * MIB), program.alloc(1 * MIB - 512)
    program.alloc(512)
    result = run(program)
    assert (first, second) == (0, 1)
    assert result.num_device_alloc == 1
    assert result.peak_allocated_bytes == 2 * MIB


def test_free_neighbours_merge_in_either_order() -> None:
    for order in ((0, 1), (1, 0)):
        program = Program()
        program.alloc(8 * MIB)
        program.alloc(7 * MIB)
        program.free(*order)
        program.alloc(20 * MIB)
        assert run(program).num_device_alloc == 1


def test_a_live_block_keeps_its_neighbours_apart() -> None:
    program = Program()
    first, _, third = (program.alloc(size * MIB) for size in (6, 6, 8))
    program.free(first, third)
    program.alloc(9 * MIB)
    assert run(program).num_device_alloc == 2


def test_streams_share_neither_free_blocks_nor_segments() -> None:
    program = Program()
    program.cache(30 * MIB, stream=1)
    program.alloc(30 * MIB)
    program.alloc(30 * MIB, stream=1)
    assert run(program).peak_reserved_bytes == 60 * MIB


def test_private_pools_share_nothing_with_the_default_pool() -> None:
    program = Program()
    program.cache(30 * MIB, pool=1)
    program.alloc(30 * MIB)
    program.alloc(30 * MIB, pool=1)
    assert run(program).peak_reserved_bytes == 60 * MIB


def test_reserved_counts_what_was_asked_while_the_device_gives_whole_2_MiB() -> None:
    program = Program()
    program.alloc(5 * MIB)
    program.alloc(8 * MIB)
    result = run(program, "large_segment_size_mb:11", device_total=24 * MIB)
    assert result.peak_reserved_bytes == 22 * MIB
    assert run(program, "large_segment_size_mb:11", device_total=23 * MIB).failed_operation == 1
