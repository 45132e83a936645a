"""garbage_collection_threshold: when it is armed, and which cached segments go."""

from __future__ import annotations

import pytest

from tests.traces import GIB, MIB, Program, run

HALF = "garbage_collection_threshold:0.5"


def freed(
    program: Program,
    settings: str = HALF,
    *,
    memory_limit: int | None = GIB,
    torch: tuple[int, int] = (2, 14),
) -> list[int]:
    """MiB of the segments given back, in that order."""
    result = run(program, settings, memory_limit=memory_limit, torch=torch)
    assert result.num_alloc_retries == 0
    return [int(size) // MIB for size in result.device_calls.size[result.device_calls.kind == 1]]


def old_and_young() -> Program:
    """300 MiB cached early, 310 MiB cached late, then a request that misses."""
    program = Program()
    program.cache(300 * MIB)
    for _ in range(5):
        program.cache(200 * MIB, 150 * MIB)
    program.cache(310 * MIB)
    program.alloc(350 * MIB)
    return program


def test_segments_of_at_least_average_age_go_when_more_than_the_threshold_is_reserved() -> None:
    program = Program()
    program.cache(300 * MIB)
    program.cache(310 * MIB)
    program.alloc(320 * MIB)
    assert freed(program) == [300]


def test_nothing_goes_at_the_threshold_itself() -> None:
    program = Program()
    program.cache(512 * MIB)
    program.alloc(600 * MIB)
    quarter = "garbage_collection_threshold:0.25"
    assert freed(program, quarter, memory_limit=2 * GIB) == []
    assert freed(program, quarter, memory_limit=2 * GIB - 8) == [512]


def test_a_round_does_not_stop_when_enough_is_reclaimed() -> None:
    program = Program()
    program.cache(200 * MIB, 210 * MIB, 220 * MIB)
    program.alloc(230 * MIB)
    assert freed(program) == [200, 210, 220]


def test_rounds_go_on_until_enough_is_reclaimed() -> None:
    program = Program()
    program.cache(100 * MIB)
    program.cache(900 * MIB)
    program.alloc(910 * MIB)
    assert freed(program, "garbage_collection_threshold:0.1") == [100, 900]


def test_age_is_counted_in_lookups_of_the_large_pool_alone() -> None:
    program = Program()
    program.cache(300 * MIB)
    program.cache(310 * MIB)  # one lookup younger
    for _ in range(50):
        program.cache(1000)
    program.alloc(320 * MIB)
    assert freed(program) == [300]


def test_using_a_block_makes_it_young_again() -> None:
    program = Program()
    program.cache(300 * MIB)
    program.cache(310 * MIB)
    program.cache(299 * MIB)  # from the segment of 300 MiB
    program.alloc(320 * MIB)
    assert freed(program) == [310]


def test_a_miss_in_the_small_pool_collects_as_well() -> None:
    program = Program()
    program.cache(600 * MIB)
    program.alloc(1000)
    assert freed(program) == [600]


def test_segments_that_are_split_or_small_or_private_stay() -> None:
    program = Program()
    program.cache(500 * MIB, pool=1)
    program.cache(1000)
    front, _ = program.alloc(5 * MIB), program.alloc(5 * MIB)
    program.free(front)
    program.cache(100 * MIB)
    program.alloc(110 * MIB)
    assert freed(program) == [100]


def test_segments_of_all_streams_are_collected() -> None:
    program = Program()
    program.cache(300 * MIB, stream=1)
    program.cache(310 * MIB)
    program.alloc(320 * MIB)
    assert freed(program) == [300]


def test_without_a_limit_nothing_is_collected() -> None:
    assert freed(old_and_young(), memory_limit=None) == []


@pytest.mark.parametrize(("torch", "armed"), [((2, 9), True), ((2, 10), False)])
def test_a_fraction_of_one_arms_it_up_to_torch_2_9_alone(torch: tuple[int, int], armed: bool) -> None:
    program = Program()
    program.cache(3 * GIB)
    program.alloc(100 * MIB, stream=1)
    assert bool(freed(program, memory_limit=4 * GIB, torch=torch)) is armed


def test_a_fraction_in_the_settings_arms_it() -> None:
    program = Program()
    program.cache(3 * GIB)
    program.alloc(100 * MIB, stream=1)
    assert freed(program, f"{HALF},per_process_memory_fraction:0.99", memory_limit=None) == [3072]
