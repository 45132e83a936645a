"""Where nothing fits, the memory that is named is enough, and less is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.allocator import replay
from autotune.allocator.conditions import Conditions
from autotune.measurement import Outcome
from autotune.report import shortage as module
from autotune.report.shortage import shortage
from autotune.settings import AllocatorSettings
from autotune.trace import load

DATA = Path(__file__).parents[2] / "data"
MIB = 1 << 20
TRIED = ["", "expandable_segments:True", "roundup_power2_divisions:8"]


def test_the_program_completes_in_the_memory_named_and_in_no_page_less() -> None:
    trace = load(DATA / "gan.npz")
    found = shortage(trace, TRIED, Conditions.of(trace, 1067 * MIB, None, (2, 11)))
    assert [one.settings for one in found.fits] == [TRIED[1], TRIED[2], TRIED[0]]
    assert found.live_bytes == trace.peak_requested_bytes
    best = found.fits[0]
    for size, outcome in (
        (best.smallest_fit_bytes, Outcome.COMPLETED),
        (best.smallest_fit_bytes - 2 * MIB, Outcome.OUT_OF_MEMORY),
    ):
        settings = AllocatorSettings.parse(best.settings)
        assert replay(trace, settings, memory_limit=size, torch_version=(2, 11)).outcome is outcome


def test_of_a_long_trace_only_the_first_settings_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_OPERATIONS", 1)
    trace = load(DATA / "gan.npz")
    found = shortage(trace, TRIED, Conditions.of(trace, 1067 * MIB, None, (2, 11)))
    assert {one.settings for one in found.fits} == set(TRIED[:2])
