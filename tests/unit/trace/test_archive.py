"""Our own file and bare event arrays: what is written is read back, and everything else is refused."""

from __future__ import annotations

import io
import json
import os
import resource
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import TraceError
from autotune.trace import Recording, Trace, load, save

COLUMNS = ("is_alloc", "block", "size", "stream", "pool", "time_us")
REQUIRED = {
    "action": np.zeros(1, np.uint8),
    "actions": np.array(["alloc"]),
    "addr": np.ones(1, np.uint64),
    "size": np.ones(1, np.uint64),
    "stream": np.zeros(1, np.uint64),
}


def archive(**arrays: object) -> bytes:
    """The smallest legal file, with arrays replaced, added, or (None) left out."""
    complete: dict[str, Any] = {**REQUIRED, **arrays}
    buffer = io.BytesIO()
    np.savez(buffer, **{name: value for name, value in complete.items() if value is not None})
    return buffer.getvalue()


def meta(**document: object) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(
        json.dumps({"format": "autotune-trace", "version": 1, **document}).encode(), np.uint8
    )


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Any legal trace, in the canonical numbering that reading gives."""
    preexisting = draw(st.integers(0, 3))
    is_alloc, block, live = [True] * preexisting, list(range(preexisting)), list(range(preexisting))
    born = preexisting
    for _ in range(draw(st.integers(0 if preexisting else 1, 12))):
        if live and draw(st.booleans()):
            block.append(live.pop(draw(st.integers(0, len(live) - 1))))
            is_alloc.append(False)
        else:
            live.append(born)
            block.append(born)
            is_alloc.append(True)
            born += 1
    sizes = [draw(st.integers(1, 1 << 40)) for _ in range(born)]
    streams, pools = [0], [0]
    for _ in range(born - 1):
        streams.append(draw(st.integers(0, max(streams) + 1)))
        pools.append(draw(st.integers(0, max(pools) + 1)))
    rows = len(block)
    ends = sorted(draw(st.lists(st.integers(preexisting, rows), max_size=3)))
    fatal = is_alloc[-1] and rows > preexisting and draw(st.booleans())
    return Trace(
        is_alloc=np.array(is_alloc),
        block=np.array(block),
        size=np.array([sizes[number] for number in block]),
        stream=np.array([streams[number] for number in block]),
        pool=np.array([pools[number] for number in block]),
        time_us=np.full(rows, draw(st.integers(0, 1 << 60)) if rows > preexisting else 0),
        num_preexisting=preexisting,
        step_ends=tuple(ends),
        oom_size=sizes[block[-1]] if fatal else None,
        recording=Recording(
            torch="2.11.0+cu130", gpu="NVIDIA H200", device_total_bytes=150_109_880_320, memory_fraction=0.5,
            settings="expandable_segments:True", estimated=draw(st.booleans()), script="train.py",
        ),
    )  # fmt: skip


@settings(deadline=None)
@given(trace=traces())
def test_a_saved_trace_is_read_back_as_it_was(trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "round trip"
    save(trace, path)
    again = load(path)
    for name in COLUMNS:
        assert np.array_equal(getattr(again, name), getattr(trace, name)), name
    assert (again.step_ends, again.oom_size) == (trace.step_ends, trace.oom_size)
    assert again.num_preexisting == trace.num_preexisting
    kept = ("torch", "gpu", "device_total_bytes", "memory_fraction", "settings", "estimated", "script")
    assert [getattr(again.recording, name) for name in kept] == [
        getattr(trace.recording, name) for name in kept
    ]


def test_saving_and_reading_again_and_again_changes_nothing(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("a", "b", "c"))
    first.write_bytes(
        archive(live_addr=np.ones(1, int) * 9, live_size=np.ones(1, int), live_stream=np.ones(1, int))
    )
    save(load(first), second)
    save(load(second), third)
    assert load(second).recording == load(third).recording


def test_the_recording_is_what_the_description_says(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(archive(meta=meta(torch="2.9", notes=["Said."], observed={"peak_reserved_bytes": 7})))
    recording = load(path).recording
    assert (recording.torch, recording.notes) == ("2.9", ("Said.",))
    assert (
        recording.observed["peak_reserved_bytes"] == 7
    )  # reported by the allocator: wins over what is deduced


def test_bare_event_arrays_are_read_without_times_and_pools(tmp_path: Path) -> None:
    path = tmp_path / "bare"
    path.write_bytes(archive())
    trace = load(path)
    assert (trace.size.tolist(), trace.time_us.tolist(), trace.pool.tolist()) == ([1], [0], [0])


def test_estimates_claim_no_observations(tmp_path: Path) -> None:
    path = tmp_path / "estimate"
    path.write_bytes(archive(meta=meta(estimated=True)))
    assert not load(path).recording.observed


def test_words_of_a_stranger_cannot_steer_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "trace.npz"
    path.write_bytes(archive(meta=meta(gpu="H\x1b]0;x200", torch="2.11\x9b31m", notes=["\x1b[2J"])))
    recording = load(path).recording
    assert all(text.isprintable() for text in (recording.gpu or "", recording.torch or "", *recording.notes))


REFUSED = {
    "empty": (b"", "is empty"),
    "text": (b"<!DOCTYPE html>", "neither a PyTorch memory snapshot nor"),
    "zip magic only": (b"PK\x03\x04 no archive", "damaged archive"),
    "cut": (archive()[:-40], "damaged archive"),
    "foreign archive": (archive(action=None, weights=np.ones(3)), "no array 'action'"),
    "no action names": (archive(actions=None), "no array 'actions'"),
    "unequal lengths": (archive(addr=np.ones(2, np.uint64)), "unequal length"),
    "floats": (archive(addr=np.ones(1)), "type float64"),
    "booleans": (archive(action=np.ones(1, bool)), "type bool"),
    "objects": (archive(size=np.array([object()])), "damaged array|type object"),
    "two dimensions": (archive(addr=np.ones((1, 1), np.uint64)), "shape"),
    "negative": (archive(size=np.full(1, -5)), "negative"),
    "nameless action": (archive(action=np.full(1, 9, np.uint8)), "action 9"),
    "too long names": (archive(actions=np.array(["x" * 100])), "which no trace has"),
    "sizes that no GPU has": (archive(size=np.full(1, 1 << 63, np.uint64)), "no GPU could serve"),
    "step beyond the end": (archive(step_end=np.array([5])), "step boundaries"),
    "steps backwards": (archive(step_end=np.array([1, 0])), "step boundaries"),
    "half of the live blocks": (archive(live_addr=np.ones(1, int)), "only in part"),
    "description cut": (archive(meta=np.frombuffer(b"{", np.uint8)), "damaged description"),
    "description of numbers": (archive(meta=np.frombuffer(b"5", np.uint8)), "damaged description"),
    "another format": (archive(meta=meta(format="other")), "not autotune-trace"),
    "a newer version": (archive(meta=meta(version=2)), "newer autotune .format 2.*upgrade"),
    "observed is a number": (archive(meta=meta(observed=3)), "'observed' is 3"),
    "observed without end": (
        archive(meta=meta(observed={"peak_reserved_bytes": 10**400})),
        "no number of bytes",
    ),
    "observed infinite": (archive(meta=meta(observed={"x": float("inf")})), "damaged description"),
    "operators infinite": (archive(meta=meta(operators={"a": [float("inf"), 1]})), "damaged description"),
    "a GPU without end": (archive(meta=meta(device_total_bytes=10**19)), "no number of bytes"),
    "a GPU below nothing": (archive(meta=meta(device_total_bytes=-5)), "no number of bytes"),
    "no fraction": (archive(meta=meta(memory_fraction=float("nan"))), "memory_fraction"),
    "observed a sentence": (archive(meta=meta(observed={"x": "much"})), "damaged description"),
    "notes are a string": (archive(meta=meta(notes="abc")), "'notes' is 'abc'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_trace_is_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    data, sentence = REFUSED[name]
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(TraceError, match=sentence) as caught:
        load(path)
    assert "file" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("cut", range(0, 1400, 97))
def test_no_cut_of_a_file_escapes_as_another_error(cut: int, tmp_path: Path) -> None:
    path, whole = tmp_path / "file", archive()
    path.write_bytes(whole[: min(cut, len(whole) - 1)])
    with pytest.raises(TraceError):
        load(path)


def test_an_archive_that_declares_gigabytes_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    rows = 40_000_000
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as out:
        for name, array in REQUIRED.items():
            if name == "actions":
                with out.open(f"{name}.npy", "w") as file:
                    np.lib.format.write_array(file, array)
                continue
            with out.open(f"{name}.npy", "w", force_zip64=True) as file:
                header = {"descr": "|u1", "fortran_order": False, "shape": (rows,)}
                np.lib.format.write_array_header_1_0(file, header)
                for _ in range(40):
                    file.write(bytes(rows // 40))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TraceError, match="40,000,000 rows"):
        load(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # KiB; unpacked it is 160 MB


def test_an_array_shorter_than_its_header_says_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "short"
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<u8", "fortran_order": False, "shape": (1000,)})
    path.write_bytes(archive(addr=None))
    with zipfile.ZipFile(path, "a") as out:
        out.writestr("addr.npy", buffer.getvalue() + bytes(8))
    with pytest.raises(TraceError, match="shorter or longer than it says"):
        load(path)


def test_missing_files_folders_and_devices_are_refused(tmp_path: Path) -> None:
    for path, sentence in (
        (tmp_path, "not a file"),
        (tmp_path / "no", "does not exist"),
        (Path(os.devnull), "not a"),
    ):
        with pytest.raises(TraceError, match=sentence):
            load(path)


FULL_DISK = """
import resource, signal, sys
import numpy as np
from autotune.errors import TraceError
from autotune.trace import Trace, save
rows = np.arange(200_000)
random = np.random.default_rng(0).integers(1, 1 << 40, len(rows))  # does not compress
trace = Trace(is_alloc=rows >= 0, block=rows, size=random, stream=rows * 0, pool=rows * 0, time_us=random)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    save(trace, sys.argv[1])
except TraceError as error:
    print(error)
"""


def test_a_disk_that_fills_up_gives_a_sentence_and_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.npz"
    path.write_bytes(b"what was there before")
    done = subprocess.run([sys.executable, "-c", FULL_DISK, path], capture_output=True, text=True, check=True)
    assert "cannot be written: File too large" in done.stdout
    assert [item.name for item in tmp_path.iterdir()] == ["trace.npz"]
    assert path.read_bytes() == b"what was there before"


def test_a_folder_that_does_not_exist_gives_a_sentence(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(archive())
    with pytest.raises(TraceError, match="cannot be written: No such file or directory"):
        save(load(source), tmp_path / "nowhere" / "trace.npz")
