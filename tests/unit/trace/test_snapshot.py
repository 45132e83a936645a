"""Snapshots as people have them: real ones, those of other releases, several devices, no history."""

from __future__ import annotations

import gzip
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from autotune.errors import TraceError
from autotune.trace import load
from autotune.trace.snapshot import settings_text

DATA = Path(__file__).parents[2] / "data"
Write = Callable[[object], Path]


def entry(action: str, addr: int, size: int, **more: object) -> dict[str, object]:
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": 5, **more}


def snapshot(
    *device_traces: list[dict[str, object]], segments: Iterable[dict[str, object]] = (), **more: object
) -> dict[str, Any]:
    return {
        "segments": list(segments),
        "device_traces": list(device_traces),
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"},
        **more,
    }


def segment(
    address: int, *blocks: tuple[int, str], pool: tuple[int, int] = (0, 0), stream: int = 0, device: int = 0
) -> dict[str, object]:
    """A segment with blocks of (size, state) side by side; 8 bytes of each were not asked for."""
    laid_out, at = [], address
    for size, state in blocks:
        laid_out.append({"address": at, "size": size, "requested_size": size - 8, "state": state})
        at += size
    return {
        "device": device, "address": address, "total_size": at - address, "stream": stream,
        "segment_pool_id": pool, "blocks": laid_out,
    }  # fmt: skip


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(document: object) -> Path:
        path = tmp_path / "a snapshot"
        path.write_bytes(pickle.dumps(document))
        return path

    return write


@pytest.mark.parametrize(
    ("name", "rows", "reserved", "device_allocs", "device_frees"),
    [("expandable", 10468, 1_925_185_536, 61, 0), ("oom", 2093, 2_891_972_608, 56, 4)],
)
def test_what_real_snapshots_tell_is_what_the_allocator_reported(
    name: str, rows: int, reserved: int, device_allocs: int, device_frees: int
) -> None:
    trace = load(DATA / f"{name}.pickle.gz")
    assert trace.num_operations == rows
    observed = trace.recording.observed
    assert observed["peak_reserved_bytes"] == reserved
    assert (observed["num_device_alloc"], observed["num_device_free"]) == (device_allocs, device_frees)


def test_a_real_out_of_memory_snapshot_ends_with_the_request_that_failed() -> None:
    trace = load(DATA / "oom.pickle.gz")
    assert trace.oom_size == trace.size[-1] == 524_288_000
    assert trace.is_alloc[-1]
    assert trace.recording.observed["device_free_bytes_at_oom"] == 146_453_692_416


def test_gzip_is_recognised_by_content_whatever_the_name(tmp_path: Path) -> None:
    path = tmp_path / "renamed.npz"
    path.write_bytes((DATA / "oom.pickle.gz").read_bytes())
    assert load(path).num_operations == 2093
    path.write_bytes(gzip.decompress(path.read_bytes()))
    assert load(path).num_operations == 2093


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_binary_pickle_protocol_is_read(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "snapshot"
    path.write_bytes(pickle.dumps(snapshot([entry("alloc", 1 << 46, 9)]), protocol=protocol))
    assert load(path).size.tolist() == [9]


def test_unknown_actions_and_annotations_are_passed_over(write: Write) -> None:
    rows = [entry("alloc", 1, 9), entry("annotate", 1, 9), entry("snapshot", 0, 0), entry("teleport", 1, 9)]
    assert load(write(snapshot(rows))).num_operations == 1


def test_the_busiest_device_is_read_and_said_unless_one_is_chosen(write: Write) -> None:
    path = write(snapshot([entry("alloc", 1, 9)], [], [entry("alloc", 1, 9), entry("alloc", 2, 9)]))
    busiest = load(path)
    assert busiest.num_operations == 2
    assert "2 devices; this is device 2, the busiest" in busiest.recording.notes[0]
    assert load(path, device=0).num_operations == 1
    with pytest.raises(TraceError, match=r"no history of device 1; it has device 0 \(1 allocations\), 2"):
        load(path, device=1)


def test_blocks_alive_before_the_recording_are_those_in_use_that_no_event_mentions(write: Write) -> None:
    high = segment(1 << 20, (512, "active_allocated"), (1024, "inactive"), (2048, "active_awaiting_free"))
    low = segment(4096, (768, "active_allocated"), (512, "active_allocated"))
    other = segment(1 << 30, (640, "active_allocated"), device=1)
    later = entry("alloc", 4096, 760)  # the block there was born during the recording
    trace = load(write(snapshot([later], segments=(high, low, other))))
    assert trace.num_preexisting == 3
    assert trace.size.tolist() == [504, 504, 2040, 760]  # in address order: 4864, 1 MiB, 1 MiB + 1536


def test_blocks_alive_before_are_ordered_by_stream_then_address(write: Write) -> None:
    first = segment(1 << 20, (512, "active_allocated"), stream=5)
    second = segment(1 << 21, (1024, "active_allocated"), stream=0)
    trace = load(write(snapshot([entry("alloc", 64, 9)], segments=(first, second))))
    assert trace.size.tolist() == [1016, 504, 9]
    assert trace.stream.tolist() == [0, 1, 0]


def test_memory_reserved_before_the_recording_is_deduced_from_the_end(write: Write) -> None:
    rows = [entry("segment_alloc", 1 << 21, 1 << 20), entry("alloc", 1 << 21, 9)]
    segments = (segment(1 << 20, (3 << 20, "inactive")), segment(1 << 21, (1 << 20, "active_allocated")))
    observed = load(write(snapshot(rows, segments=segments))).recording.observed
    assert observed["peak_reserved_bytes"] == 4 << 20


def test_private_pools_come_from_the_entries_where_torch_records_them(write: Write) -> None:
    rows = [entry("alloc", 1, 9, pool_id=(0, 0)), entry("alloc", 2, 9, pool_id=(0, 3))]
    assert load(write(snapshot(rows))).pool.tolist() == [0, 1]


def test_private_pools_of_older_snapshots_come_from_the_segments(write: Write) -> None:
    private = segment(4096, (512, "active_allocated"), pool=(0, 3))
    early, free = entry("alloc", 4096, 504), entry("free_completed", 4096, 504)
    born, late = entry("segment_alloc", 4096, 512), entry("alloc", 4096, 504)
    trace = load(write(snapshot([entry("alloc", 1, 9), early, free, born, late], segments=(private,))))
    assert trace.pool.tolist() == [0, 0, 0, 1]  # the early block lived in other memory at that address


@pytest.mark.parametrize(
    ("keys", "torch"),
    [
        ({"external_annotations": []}, "2.7"),
        ({"external_annotations": [], "host_traces": [], "host_segments": []}, "2.14"),
        ({}, "2.5"),
    ],
)
def test_the_torch_release_is_told_from_the_fields(keys: dict[str, object], torch: str, write: Write) -> None:
    recording = load(write(snapshot([entry("alloc", 1, 9)], **keys))).recording
    assert recording.torch == torch
    assert "does not name its torch" in recording.notes[-1]


@pytest.mark.parametrize(
    ("reported", "text"),
    [
        ({"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb : 64"}, "max_split_size_mb:64"),
        ({"PYTORCH_CUDA_ALLOC_CONF": ""}, ""),
        ({"PYTORCH_CUDA_ALLOC_CONF": "tomorrow:1", "expandable_segments": True}, "expandable_segments:True"),
        ({"max_split_size": 128 << 20, "garbage_collection_threshold": 0.800000011920929},
         "max_split_size_mb:128,garbage_collection_threshold:0.8"),
        ({"max_split_size": -1, "roundup_power2_divisions": {str(1 << n): 4 for n in range(16)}},
         "roundup_power2_divisions:4"),
    ],
)  # fmt: skip
def test_settings_come_from_the_string_or_else_from_the_effective_values(
    reported: dict[str, object], text: str
) -> None:
    assert settings_text(reported) == text


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (["a", "list"], "is a list; dump the whole snapshot"),
        ({"weights": [1, 2]}, "not one that torch.cuda.memory._dump_snapshot wrote"),
        ({"device_traces": 3}, "not one that torch.cuda.memory._dump_snapshot wrote"),
        ({"segments": [], "device_traces": [[], []]}, "no history; call torch.cuda.memory._record"),
        ({"segments": [], "device_traces": [[{"addr": 1}]]}, "not laid out"),
        ({"segments": [], "device_traces": [["alloc"]]}, "not laid out"),
        ({"segments": [], "device_traces": [5]}, "not laid out"),
        ({"segments": [3], "device_traces": [[entry("alloc", 1, 9)]]}, "not laid out"),
        ({"segments": [], "device_traces": [[entry("alloc", 1, 1 << 70)]]}, "not laid out"),
        ({"segments": [], "device_traces": [[entry("alloc", -1, 9)]]}, "not laid out"),
        (snapshot([entry("alloc", 1, 9)], allocator_settings=[1]), "allocator settings"),
        (snapshot([entry("alloc", 1, 9)], allocator_settings={"x": "y" * 3_000_000}), "too long"),
    ],
)  # fmt: skip
def test_pickles_that_are_no_usable_snapshot_are_refused(
    document: object, sentence: str, write: Write
) -> None:
    with pytest.raises(TraceError, match=sentence) as caught:
        load(write(document))
    assert "'" in str(caught.value) and "a snapshot" in str(caught.value)
