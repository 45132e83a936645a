"""Out of memory: what is released before an allocation is given up."""

from __future__ import annotations

from tests.traces import GIB, MIB, Program, run


def four_cached() -> Program:
    """Four cached segments of 1000 MiB, then a request that no longer fits on 4 GiB."""
    program = Program()
    program.cache(*[1000 * MIB] * 4)
    program.alloc(1500 * MIB)
    return program


def test_without_a_split_size_everything_cached_is_released_and_a_retry_is_counted() -> None:
    result = run(four_cached())
    assert (result.num_device_free, result.num_alloc_retries) == (4, 1)
    assert result.reserved_bytes_at_end == 1500 * MIB


def test_with_a_split_size_only_as_many_oversize_blocks_as_needed_and_no_retry() -> None:
    result = run(four_cached(), "max_split_size_mb:512")
    assert (result.num_device_free, result.num_alloc_retries) == (2, 0)
    assert result.reserved_bytes_at_end == 3500 * MIB


def test_with_expandable_segments_the_cached_pages_are_used_again() -> None:
    result = run(four_cached(), "expandable_segments:True")
    assert (result.num_device_free, result.num_alloc_retries) == (0, 0)


def test_the_smallest_oversize_block_that_suffices_is_released_alone() -> None:
    program = Program()
    program.cache(1000 * MIB, 1600 * MIB, 1400 * MIB)
    program.alloc(1300 * MIB)
    result = run(program, "max_split_size_mb:512")
    assert result.device_calls.size[result.device_calls.kind == 1].tolist() == [1400 * MIB]


def test_blocks_below_the_split_size_are_no_oversize_blocks() -> None:
    program = Program()
    program.cache(1000 * MIB, 900 * MIB, 400 * MIB, 1700 * MIB)
    program.alloc(3000 * MIB)
    result = run(program, "max_split_size_mb:512")
    freed = result.device_calls.size[result.device_calls.kind == 1] // MIB
    assert freed.tolist() == [1700, 1000, 900]
    assert result.num_alloc_retries == 0


def test_too_few_oversize_blocks_are_released_all_the_same_and_the_rest_after_them() -> None:
    program = Program()
    program.cache(1000 * MIB, 400 * MIB)
    program.alloc(4 * GIB)
    result = run(program, "max_split_size_mb:512")
    assert (result.num_device_free, result.num_alloc_retries) == (2, 1)
    assert result.failed_operation is None


def test_a_segment_with_a_live_block_is_not_released() -> None:
    program = Program()
    first, _ = program.alloc(6 * MIB), program.alloc(6 * MIB)
    program.free(first)
    program.cache(100)
    program.alloc(100 * MIB)
    result = run(program, device_total=101 * MIB)
    assert result.failed_operation == 5
    assert result.reserved_bytes_at_end == 20 * MIB
    assert result.num_alloc_retries == 1


def test_all_streams_are_released_but_no_private_pool() -> None:
    program = Program()
    program.cache(30 * MIB, stream=1)
    program.cache(40 * MIB, pool=1)
    program.alloc(50 * MIB)
    assert run(program, device_total=90 * MIB).reserved_bytes_at_end == 90 * MIB


def test_oversize_blocks_of_other_streams_wait_for_the_release_of_everything() -> None:
    program = Program()
    program.cache(60 * MIB, stream=1)
    program.alloc(50 * MIB)
    result = run(program, "max_split_size_mb:32", device_total=100 * MIB)
    assert (result.num_device_free, result.num_alloc_retries) == (1, 1)


def test_a_limit_ends_at_its_last_byte() -> None:
    program = Program()
    program.alloc(30 * MIB)
    assert run(program, memory_limit=30 * MIB).failed_operation is None
    result = run(program, memory_limit=30 * MIB - 1)
    assert (result.failed_operation, result.operations, result.peak_reserved_bytes) == (0, 0, 0)
    assert result.num_alloc_retries == 1


def test_a_fraction_in_the_settings_is_a_limit_unless_the_process_sets_another() -> None:
    program = Program()
    program.alloc(3 * GIB)
    half = "per_process_memory_fraction:0.5"
    assert run(program, half).failed_operation == 0
    assert run(program, half, memory_limit=3 * GIB).failed_operation is None


def test_throw_on_oom_gives_up_before_anything_is_released() -> None:
    program = four_cached()
    settings = "throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.99"
    result = run(program, settings, memory_limit=4 * GIB)
    assert result.failed_operation == 8
    assert (result.num_device_free, result.num_alloc_retries) == (0, 0)


def test_up_to_torch_2_12_a_private_pool_releases_nothing() -> None:
    program = Program()
    program.cache(60 * MIB)
    program.alloc(50 * MIB, pool=1)
    assert run(program, device_total=100 * MIB, torch=(2, 13)).failed_operation is None
    assert run(program, device_total=100 * MIB, torch=(2, 12)).failed_operation == 2
