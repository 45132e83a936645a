"""Snapshots that the installed torch writes, on the stand-in device, against what its allocator reports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autotune.allocator.selfcheck import recorded_limit, self_check
from autotune.errors import TraceError, UsageError
from autotune.trace import load

SCRIPT = Path(__file__).parents[1] / "scripts" / "dumps_a_snapshot.py"
DEVICE_BYTES = 8 << 30

pytestmark = pytest.mark.native


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    from autotune.allocator.native.build import stand_in_environment

    torch = pytest.importorskip("torch")
    if not torch.version.cuda:
        pytest.skip("needs a CUDA build of torch")
    try:
        return {**os.environ, **stand_in_environment(DEVICE_BYTES)}
    except UsageError as error:
        pytest.skip(str(error))


def dump(how: str, path: Path, environment: dict[str, str]) -> list[int]:
    """Peak reserved, peak requested, device allocs and frees, as the allocator reports them."""
    command = [sys.executable, str(SCRIPT), how, str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [int(word) for word in done.stdout.split()]


@pytest.mark.parametrize(("how", "preexisting", "pools"), [("late", 3, 1), ("pool", 0, 2), ("oom", 0, 1)])
def test_a_snapshot_of_this_torch_tells_what_its_allocator_reports(
    how: str, preexisting: int, pools: int, tmp_path: Path, environment: dict[str, str]
) -> None:
    reserved, requested, allocs, frees = dump(how, tmp_path / "snapshot", environment)
    trace = load(tmp_path / "snapshot")
    observed = trace.recording.observed
    assert (trace.num_preexisting, trace.num_pools) == (preexisting, pools)
    assert (observed["peak_reserved_bytes"], observed["peak_requested_bytes"]) == (reserved, requested)
    if not preexisting:
        assert (observed["num_device_alloc"], observed["num_device_free"]) == (allocs, frees)
    assert self_check(trace).difference == 0
    if how == "oom":
        assert trace.oom_size == 9 << 30
        assert recorded_limit(trace) == DEVICE_BYTES


def test_a_ring_buffer_that_overflowed_is_noticed(tmp_path: Path, environment: dict[str, str]) -> None:
    dump("ring", tmp_path / "snapshot", environment)
    with pytest.raises(TraceError, match="is cut at its beginning: 12 of its frees"):
        load(tmp_path / "snapshot")
    assert load(tmp_path / "snapshot", partial=True).num_preexisting == 12
