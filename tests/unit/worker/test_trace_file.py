"""The file that the worker writes is the file that the trace room reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune import trace
from autotune.worker.trace_file import Events


def events() -> Events:
    written = Events()
    written.add("alloc", 1 << 40, 1000, 0, 10)
    written.add("segment_alloc", 1 << 40, 2 << 20, 0, 10)
    written.add("alloc", 2 << 40, 5000, (1 << 63) + 7, 11, pool=1)
    written.add("free_requested", 1 << 40, 1000, 0, 12)
    written.add("free_completed", 1 << 40, 1000, 0, 13)
    written.add("of the future", 0, 0, 0, 14)
    return written


def test_it_reads_back_as_a_trace(tmp_path: Path) -> None:
    written = events()
    written.step_ends = [3, 5]
    meta = {"torch": "2.11.0", "device_total_bytes": 1 << 34, "settings": "max_split_size_mb:64",
            "estimated": True, "notes": ["äöü — 中"], "observed": {"peak_reserved_bytes": 5}}  # fmt: skip
    written.write(str(tmp_path / "trace.npz"), meta)
    read = trace.load(tmp_path / "trace.npz")
    assert read.is_alloc.tolist() == [True, True, False]
    assert read.block.tolist() == [0, 1, 0]
    assert read.size.tolist() == [1000, 5000, 1000]
    assert (read.stream.tolist(), read.pool.tolist()) == ([0, 1, 0], [0, 1, 0])
    assert read.step_ends == (2, 3)
    assert read.recording.torch == "2.11.0" and read.recording.estimated
    assert read.recording.notes == ("äöü — 中",)
    assert read.recording.observed == {"peak_reserved_bytes": 5}


def test_a_boundary_lies_after_all_that_was_counted_before_it() -> None:
    written = events()
    assert written.position_after({"allocs": 0, "frees_requested": 0, "frees_completed": 0}) == 0
    assert written.position_after({"allocs": 2, "frees_requested": 0, "frees_completed": 0}) == 3
    assert written.position_after({"allocs": 2, "frees_requested": 1, "frees_completed": 0}) == 4
    assert written.position_after({"allocs": 2, "frees_requested": 1, "frees_completed": 1}) == 5


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    target = tmp_path / "trace.npz"
    target.mkdir()  # the last step, moving into place, fails
    with pytest.raises(OSError):
        events().write(str(target), {})
    assert list(tmp_path.iterdir()) == [target]
