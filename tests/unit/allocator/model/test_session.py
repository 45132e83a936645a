"""Replays as objects: what they report, how they stop, and which traces they refuse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autotune.allocator.model import Model, ReplaySession, prepare
from autotune.allocator.result import DeviceCall
from autotune.errors import TraceError
from autotune.measurement import Outcome
from autotune.settings import AllocatorSettings
from autotune.trace import Trace
from tests.traces import GIB, MIB, Program, run


def replay(trace: Trace, settings: str = "", device_total: int = GIB):  # type: ignore[no-untyped-def]
    return Model().replay(
        trace,
        AllocatorSettings.parse(settings),
        memory_limit=None,
        device_total=device_total,
        torch_version=(2, 14),
    )


def test_driver_calls_are_listed_with_row_kind_bytes_and_pages() -> None:
    program = Program()
    program.cache(45 * MIB)
    program.alloc(90 * MIB)
    calls = run(program, "expandable_segments:True", device_total=120 * MIB).device_calls
    rows = list(zip(calls.operation, calls.kind, calls.size // MIB, calls.pages, strict=True))
    assert rows == [(0, DeviceCall.MAP, 60, 3), (2, DeviceCall.MAP, 40, 2)]


def test_a_replay_with_very_many_driver_calls_lists_all_of_them() -> None:
    program = Program()
    for size in range(3000):
        program.cache(600 * MIB, stream=size % 2)
    result = replay(program.trace(), device_total=1000 * MIB)
    assert result.num_device_alloc > 2900
    assert len(result.device_calls.kind) == result.num_device_alloc + result.num_device_free > 4096


def test_out_of_memory_ends_the_replay_at_its_row() -> None:
    program = Program()
    program.cache(5 * MIB)
    program.alloc(2 * GIB)
    program.alloc(5 * MIB)
    result = replay(program.trace())
    assert (result.outcome, result.failed_operation, result.operations) == (Outcome.OUT_OF_MEMORY, 2, 2)


def test_an_empty_trace_completes() -> None:
    result = replay(Program().trace())
    assert (result.outcome, result.peak_reserved_bytes, result.fragmentation) == (Outcome.COMPLETED, 0, 0.0)


def test_replaying_in_pieces_is_replaying_at_once() -> None:
    program = Program()
    for size in range(1, 60):
        program.cache(size * 700_000, size * 50_000)
    session = ReplaySession(
        prepare(program.trace()), AllocatorSettings(), memory_limit=None, device_total=GIB,
        torch_version=(2, 14), max_calls=1000,
    )  # fmt: skip
    assert session.advance(100) == 100
    session.advance()
    whole, pieces = replay(program.trace()), session.result()
    assert pieces.peak_reserved_bytes == whole.peak_reserved_bytes
    assert np.array_equal(pieces.device_calls.operation, whole.device_calls.operation)


@pytest.mark.parametrize(
    ("is_alloc", "what"),
    [([False, True], "Row 0 of the trace frees"), ([True, True], "Row 1 of the trace allocates")],
)
def test_a_trace_that_frees_or_allocates_out_of_turn_is_refused(is_alloc: list[bool], what: str) -> None:
    program = Program()
    program.cache(1000)
    trace = replace(program.trace(), is_alloc=np.array(is_alloc))
    with pytest.raises(TraceError, match=what):
        replay(trace)


def test_a_negative_number_is_refused() -> None:
    program = Program()
    program.cache(1000)
    with pytest.raises(TraceError, match="negative"):
        prepare(replace(program.trace(), stream=np.array([0, -1])))


def test_arrays_of_other_types_and_layouts_are_taken() -> None:
    program = Program()
    for size in range(1, 20):
        program.cache(size * MIB)
    trace = program.trace()
    sparse = np.repeat(trace.block, 2)[::2]
    read_only = trace.size.astype(np.int32)
    read_only.flags.writeable = False
    odd = replace(trace, block=sparse, size=read_only, is_alloc=trace.is_alloc.astype(np.uint8))
    assert replay(odd).peak_reserved_bytes == replay(trace).peak_reserved_bytes
