"""The smallest memory in which a trace completes."""

from __future__ import annotations

import pytest

from autotune.allocator import replay, smallest_fit, smallest_fit_many
from autotune.allocator.fit import PAGE
from autotune.measurement import Outcome
from autotune.settings import AllocatorSettings
from tests.traces import GIB, MIB, Program

SETTINGS = [
    "", "expandable_segments:True", "max_split_size_mb:32", "garbage_collection_threshold:0.4",
    "roundup_power2_divisions:2",
]  # fmt: skip


def varied() -> Program:
    """Blocks of growing size with shorter and longer lives."""
    program, kept = Program(), []
    for size in range(1, 40):
        kept.append(program.alloc(size * MIB * 3 // 4))
        program.cache(size * MIB, size * 1000)
        if size % 3 == 0:
            program.free(kept.pop(0))
    return program


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_trace_completes_in_it_and_not_in_2_MiB_less(settings: str) -> None:
    trace, parsed = varied().trace(), AllocatorSettings.parse(settings)
    fit = smallest_fit(trace, parsed, device_total=4 * GIB)
    assert fit is not None and fit % PAGE == 0
    outcomes = [
        replay(trace, parsed, memory_limit=limit, device_total=4 * GIB).outcome for limit in (fit, fit - PAGE)
    ]
    assert outcomes == [Outcome.COMPLETED, Outcome.OUT_OF_MEMORY]


def test_of_one_block_it_is_the_block() -> None:
    program = Program()
    program.alloc(30 * MIB)
    assert smallest_fit(program.trace(), AllocatorSettings(), device_total=GIB) == 30 * MIB


def test_expandable_segments_fit_in_less_than_they_then_hold() -> None:
    program = Program()
    program.alloc(10 * MIB)
    program.alloc(10 * MIB)
    settings = AllocatorSettings(expandable_segments=True)
    assert smallest_fit(program.trace(), settings, device_total=GIB) == 10 * MIB


def test_of_nothing_it_is_nothing() -> None:
    assert smallest_fit(Program().trace(), AllocatorSettings(), device_total=GIB) == 0


def test_there_is_none_where_the_whole_device_is_too_small() -> None:
    program = Program()
    program.alloc(2 * GIB)
    assert smallest_fit(program.trace(), AllocatorSettings(), device_total=GIB) is None


def test_many_are_the_same_as_one_by_one() -> None:
    trace, done = varied().trace(), []
    parsed = [AllocatorSettings.parse(text) for text in SETTINGS]
    many = smallest_fit_many(trace, parsed, device_total=4 * GIB, workers=2, progress=done.append)
    assert many == [smallest_fit(trace, each, device_total=4 * GIB) for each in parsed]
    assert done == [1, 2, 3, 4, 5]
