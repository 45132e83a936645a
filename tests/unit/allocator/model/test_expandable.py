"""Expandable segments: when pages are mapped and unmapped, and which free block is preferred."""

from __future__ import annotations

import pytest

from tests.traces import GIB, MIB, Program, run

EXPANDABLE = "expandable_segments:True"


def test_pages_are_mapped_as_far_as_the_free_tail_does_not_suffice() -> None:
    program, mapped = Program(), []
    for megabytes in (3, 30, 7):
        program.alloc(megabytes * MIB)
        mapped.append(run(program, EXPANDABLE).peak_reserved_bytes // MIB)
    assert mapped == [20, 40, 40]
    assert run(program, EXPANDABLE).num_device_alloc == 2


def test_small_requests_map_2_MiB_in_a_segment_of_their_own() -> None:
    program = Program()
    program.alloc(1 * MIB)
    program.alloc(1 * MIB)
    program.alloc(512)
    assert run(program, EXPANDABLE).peak_reserved_bytes == 4 * MIB


def test_the_large_segment_size_is_the_page_of_large_requests() -> None:
    program = Program()
    program.alloc(3 * MIB)
    program.alloc(30 * MIB)
    assert run(program, f"{EXPANDABLE},large_segment_size_mb:32").peak_reserved_bytes == 64 * MIB


def test_a_remainder_of_512_bytes_is_split_off_a_large_block() -> None:
    program = Program()
    program.alloc(20 * MIB - 512)
    assert run(program, EXPANDABLE).peak_allocated_bytes == 20 * MIB - 512


def test_every_stream_has_its_own_segment() -> None:
    program = Program()
    program.alloc(3 * MIB)
    program.alloc(3 * MIB, stream=1)
    assert run(program, EXPANDABLE).peak_reserved_bytes == 40 * MIB


def test_a_block_that_can_grow_is_spared_for_a_larger_one_that_cannot() -> None:
    program = Program()
    hole, _, _ = program.alloc(15 * MIB), program.alloc(3 * MIB), program.alloc(10 * MIB)
    program.free(hole)  # free now: 15 MiB in front, 12 MiB at the end of the mapped pages
    program.alloc(10 * MIB)
    program.alloc(30 * MIB)
    assert run(program, EXPANDABLE).peak_reserved_bytes == 60 * MIB


def with_a_hole() -> Program:
    """3, 50 and 7 MiB in three pages of 20 MiB; the 50 MiB, with all of the second page, are free again."""
    program = Program()
    _, middle, _ = (program.alloc(size * MIB) for size in (3, 50, 7))
    program.free(middle)
    return program


def test_under_a_limit_the_whole_pages_inside_free_blocks_are_unmapped() -> None:
    program = with_a_hole()
    program.alloc(60 * MIB)
    result = run(program, EXPANDABLE, memory_limit=100 * MIB)
    assert (result.num_device_free, result.num_alloc_retries) == (1, 1)
    assert result.reserved_bytes_at_end == (60 - 20 + 60) * MIB
    assert result.device_calls.size[result.device_calls.kind == 3].tolist() == [20 * MIB]


def test_a_hole_is_mapped_again_before_the_segment_grows() -> None:
    program = with_a_hole()
    program.cache(1000)  # one byte more than the device has: the page is unmapped
    program.alloc(45 * MIB)  # 17 and 13 MiB are free on the two sides of the hole
    result = run(program, EXPANDABLE, device_total=62 * MIB - 1)
    assert result.failed_operation is None
    assert result.reserved_bytes_at_end == 60 * MIB


def test_the_limit_is_compared_with_a_segment_not_with_the_pages() -> None:
    program = Program()
    program.alloc(10 * MIB)
    program.alloc(12 * MIB)
    result = run(program, EXPANDABLE, memory_limit=32 * MIB)
    assert result.failed_operation is None
    assert result.peak_reserved_bytes == 40 * MIB


def test_mapping_fails_as_a_whole_when_the_device_is_full() -> None:
    program = Program()
    program.alloc(3 * MIB)
    program.alloc(90 * MIB)
    result = run(program, EXPANDABLE, device_total=90 * MIB)
    assert result.failed_operation == 1
    assert result.reserved_bytes_at_end == 20 * MIB


def test_pages_mapped_into_a_hole_stay_when_the_rest_does_not_fit() -> None:
    program = Program()
    first, _ = program.alloc(20 * MIB), program.alloc(20 * MIB)
    program.free(first)
    program.alloc(60 * MIB)  # does not fit; but the first page is unmapped in the attempt
    result = run(program, EXPANDABLE, device_total=79 * MIB)
    assert result.failed_operation == 3
    assert result.reserved_bytes_at_end == 20 * MIB


def test_a_second_segment_is_made_where_the_first_has_no_addresses_left() -> None:
    program = Program()
    front, _ = program.alloc(70 * MIB), program.alloc(10 * MIB)
    program.free(front)
    program.alloc(
        75 * MIB
    )  # the first segment has addresses for 120 MiB, 70 before and 40 behind the live block
    result = run(program, EXPANDABLE, device_total=100 * MIB)
    assert result.failed_operation is None
    assert result.reserved_bytes_at_end == 100 * MIB
    assert result.num_alloc_retries == 1


def test_a_split_size_makes_large_holes_useless_to_smaller_requests() -> None:
    program = Program()
    hole, _ = program.alloc(200 * MIB), program.alloc(10 * MIB)
    program.free(hole)
    program.alloc(50 * MIB)
    assert run(program, EXPANDABLE).peak_reserved_bytes == 220 * MIB
    assert run(program, f"{EXPANDABLE},max_split_size_mb:128").peak_reserved_bytes == 260 * MIB


@pytest.mark.parametrize("settings", ["", ",garbage_collection_threshold:0.1"])
def test_garbage_collection_passes_over_expandable_segments(settings: str) -> None:
    program = Program()
    program.cache(300 * MIB)
    program.alloc(400 * MIB)
    assert run(program, EXPANDABLE + settings, memory_limit=GIB).num_device_free == 0
