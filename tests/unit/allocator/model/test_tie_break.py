"""Among free blocks of equal size, releases of torch take different ones."""

from __future__ import annotations

import pytest

from tests.traces import MIB, Program, run


@pytest.mark.parametrize(
    ("torch", "kept"), [((2, 4), 20), ((2, 11), 20), ((2, 12), 30), ((2, 13), 30), ((2, 15), 30)]
)
def test_the_newer_segment_wins_up_to_torch_2_11_and_the_older_from_2_12_on(
    torch: tuple[int, int], kept: int
) -> None:
    program = Program()
    large, small = program.alloc(30 * MIB), program.alloc(5 * MIB)
    program.free(large)
    in_small, in_large = program.alloc(15 * MIB), program.alloc(15 * MIB)
    program.free(in_small)  # 15 MiB are free in the segment of 30 MiB and in the newer one of 20 MiB
    program.alloc(15 * MIB)
    program.free(small, in_large)
    program.alloc(100 * MIB)  # in vain; releases the segment that the last block is not in
    assert run(program, torch=torch, device_total=60 * MIB).reserved_bytes_at_end == kept * MIB


@pytest.mark.parametrize(("torch", "device_allocs"), [((2, 11), 1), ((2, 12), 2), ((2, 13), 1)])
def test_within_a_segment_torch_2_12_prefers_what_remained_of_it_and_others_its_front(
    torch: tuple[int, int], device_allocs: int
) -> None:
    program = Program()
    program.cache(40 * MIB)
    front, _, third = (program.alloc(size * MIB) for size in (10, 5, 15))
    program.free(front)  # 10 MiB are free in front and 10 MiB at the end
    program.alloc(10 * MIB)
    program.free(third)
    program.alloc(25 * MIB)  # fits only if the end is still free
    assert run(program, torch=torch).num_device_alloc == device_allocs
