"""The room's face: replay and replay_many."""

from __future__ import annotations

import pytest

from autotune.allocator import replay, replay_many
from autotune.errors import SettingsError, TraceError, UsageError
from autotune.settings import AllocatorSettings
from tests.traces import GIB, MIB, Program

DEFAULT, EXPANDABLE = AllocatorSettings(), AllocatorSettings(expandable_segments=True)


def one_block(megabytes: int = 30) -> Program:
    program = Program()
    program.alloc(megabytes * MIB)
    return program


def test_the_device_is_the_recordings_unless_another_is_asked_for() -> None:
    trace = one_block().trace(device_total_bytes=20 * MIB)
    assert replay(trace, DEFAULT).failed_operation == 0
    assert replay(trace, DEFAULT, device_total=40 * MIB).failed_operation is None


def test_a_trace_without_a_device_is_replayed_on_an_h200() -> None:
    assert replay(one_block(140_000).trace(), DEFAULT).failed_operation is None
    assert replay(one_block(145_000).trace(), DEFAULT).failed_operation == 0


def test_the_rules_are_those_of_the_recordings_torch_unless_another_is_asked_for() -> None:
    program = Program()
    program.alloc(17 * MIB)
    settings = AllocatorSettings.parse("roundup_power2_divisions:[16:8,>:2]")
    old, unnamed = program.trace(torch="2.9.1+cu128"), program.trace()
    assert replay(old, settings).peak_allocated_bytes == 24 * MIB
    assert replay(old, settings, torch_version=(2, 14)).peak_allocated_bytes == 18 * MIB
    assert replay(unnamed, settings).peak_allocated_bytes == 18 * MIB


def test_the_recordings_limit_is_not_taken_over() -> None:
    assert replay(one_block().trace(memory_fraction=1e-6), DEFAULT).failed_operation is None


def test_settings_that_this_torch_would_refuse_are_refused_before_any_replay() -> None:
    bad = AllocatorSettings(large_segment_size_mb=64)
    for call in (
        lambda: replay(one_block().trace(), bad, torch_version=(2, 10)),
        lambda: replay_many(one_block().trace(), [DEFAULT, bad], torch_version=(2, 10)),
    ):
        with pytest.raises(SettingsError, match=r"from torch 2\.11 on"):
            call()


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(UsageError, match="'magic' is no engine; choose model or native"):
        replay(one_block().trace(), DEFAULT, engine="magic")


@pytest.mark.parametrize("workers", [None, 1, 3])
def test_many_answers_come_in_the_order_asked(workers: int | None) -> None:
    sizes = [*range(20, 60)]
    settings = [AllocatorSettings(large_segment_size_mb=size) for size in sizes]
    program, done = Program(), []
    program.alloc(5 * MIB)
    results = replay_many(program.trace(), settings, device_total=GIB, workers=workers, progress=done.append)
    assert [result.peak_reserved_bytes // MIB for result in results] == sizes
    assert [result.settings for result in results] == settings
    assert done == [*range(1, 41)]


def test_no_settings_give_no_answers() -> None:
    assert replay_many(one_block().trace(), []) == []


def test_the_first_failure_of_many_is_raised() -> None:
    trace = one_block().trace()
    trace.is_alloc[0] = False
    with pytest.raises(TraceError):
        replay_many(trace, [DEFAULT, EXPANDABLE])


def test_running_out_at_a_workspace_says_that_the_script_may_adapt() -> None:
    program = Program()
    weights = program.alloc(30 * MIB)
    program.cache(90 * MIB)  # allocated and freed by the next row, as cuDNN does
    program.free(weights)
    assert replay(program.trace(), DEFAULT, memory_limit=100 * MIB).may_adapt


def test_running_out_at_a_block_that_others_outlive_does_not() -> None:
    program = Program()
    program.alloc(30 * MIB)
    lasting = program.alloc(90 * MIB)
    program.cache(1000)
    program.free(lasting)
    result = replay(program.trace(), DEFAULT, memory_limit=100 * MIB)
    assert result.failed_operation == 1 and not result.may_adapt


def test_a_trace_that_completes_needs_no_adapting() -> None:
    assert not replay(one_block().trace(), DEFAULT).may_adapt
