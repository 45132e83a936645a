"""What a trace says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.allocator import replay
from autotune.settings import AllocatorSettings
from autotune.trace import Trace, load
from tests.traces import varying

DATA = Path(__file__).parents[2] / "data"


@pytest.mark.parametrize("trace", [load(DATA / "gan.npz"), load(DATA / "gnn.npz"), varying()])
def test_the_live_peak_is_what_the_allocator_counts_as_requested(trace: Trace) -> None:
    assert trace.peak_requested_bytes == replay(trace, AllocatorSettings()).peak_requested_bytes
