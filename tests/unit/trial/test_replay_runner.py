"""Replays as trials, over traces of a few blocks."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.measurement import Obtained, Outcome
from autotune.settings import AllocatorSettings
from autotune.trace.trace import Recording, Trace
from autotune.trial.replay_runner import ReplayRunner, steady_state

MIB = 1 << 20


def trace(step_ends: tuple[int, ...] = (2, 4, 6), **recording: object) -> Trace:
    """One block of 30, 40, … MiB a step, freed at the step's end: each needs a larger segment."""
    steps = 3
    rows = 2 * steps
    sizes = np.repeat(np.arange(30, 30 + 10 * steps, 10) * MIB, 2)
    return Trace(
        is_alloc=np.tile([True, False], steps), block=np.repeat(np.arange(steps), 2), size=sizes,
        stream=np.zeros(rows, np.int64), pool=np.zeros(rows, np.int64), time_us=np.zeros(rows, np.int64),
        step_ends=step_ends, recording=Recording(torch="2.11.0", device_total_bytes=1 << 34, **recording),
    )  # fmt: skip


DEFAULTS = AllocatorSettings()


def test_a_replay_is_a_measurement_that_says_how_it_was_obtained() -> None:
    runner = ReplayRunner(trace(), warmup_steps=1)
    found = runner.measure(DEFAULTS, number=3)
    assert (found.outcome, found.obtained) == (Outcome.COMPLETED, Obtained.REPLAYED)
    assert (found.peak_reserved_bytes, found.peak_allocated_bytes) == (120 * MIB, 50 * MIB)
    assert (found.num_device_alloc, found.num_device_free) == (3, 0)
    assert found.step_seconds == () and found.median_step_seconds is None
    assert runner.environment == found.environment and found.environment.torch == "2.11.0"


def test_only_calls_after_warmup_cost_time() -> None:
    costs = []
    for warmup in (0, 1, 2):
        found = ReplayRunner(trace(), warmup_steps=warmup).measure(DEFAULTS, number=0)
        assert (found.warmup_steps, found.steady_device_alloc) == (warmup, 3 - warmup)
        costs.append(found.allocator_seconds or 0.0)
    assert costs[0] > costs[1] > costs[2] > 0


def test_an_estimate_stays_an_estimate() -> None:
    runner = ReplayRunner(trace(estimated=True))
    assert runner.obtained is Obtained.ESTIMATED
    assert runner.measure(DEFAULTS, number=0).obtained is Obtained.ESTIMATED


def test_out_of_memory_is_an_outcome_with_the_place_and_the_limit() -> None:
    found = ReplayRunner(trace(), memory_limit=42 * MIB).measure(DEFAULTS, number=0)
    assert found.outcome is Outcome.OUT_OF_MEMORY and found.num_ooms == 1
    assert found.reason is not None
    assert "50.0 MiB (operation 5 of 6) found no memory within 42.0 MiB" in found.reason


def test_another_torch_is_named_in_the_environment() -> None:
    runner = ReplayRunner(trace(), torch_version=(2, 13))
    assert runner.environment.torch == "2.13"


@pytest.mark.parametrize(
    ("ends", "asked", "warmup", "first"),
    [((2, 4, 6), 2, 2, 4), ((2, 4, 6), 0, 0, 0), ((2, 4, 6), 3, 1, 2), ((6,), 5, 0, 0)],
)
def test_a_trace_that_ends_during_warmup_has_half_of_its_steps_measured(
    ends: tuple[int, ...], asked: int, warmup: int, first: int
) -> None:
    assert steady_state(trace(ends), asked) == (warmup, first, ())


def test_without_step_boundaries_a_fifth_counts_as_warmup_and_that_is_said() -> None:
    found = ReplayRunner(trace(())).measure(DEFAULTS, number=0)
    assert found.warmup_steps == 0 and found.steady_device_alloc == 2
    assert "20 %" in found.notes[0]
