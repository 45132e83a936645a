"""Reading and writing traces as .npz: plain arrays in a zip, no pickle, writable with the standard library.

Arrays of equal length, one row an event, in time order; all one-dimensional:

    action    uint8   index into `actions`
    addr      uint64  address of the block; unique while the block lives
    size      uint64  bytes: requested for alloc, free_* and oom, real for segment_*
    stream    uint64  handle of the stream
    time_us   uint64  optional; microseconds
    pool      uint32  optional; number of the memory pool, 0 = default

and

    actions   <U..    PyTorch's trace action names; names unknown here are passed over
    live_addr, live_size, live_stream, live_pool   optional; blocks alive before the first event
    step_end  uint64  optional; number of events before the end of each step
    meta      uint8   optional; UTF-8 JSON: {"format": "autotune-trace", "version": 1, "torch", "gpu",
                      "device_total_bytes", "memory_fraction", "settings", "estimated",
                      "observed": {name: number}, "operators": {name: [allocations, bytes]}, "script",
                      "notes": [sentence, ...]}; the last ten are the fields of Recording, each optional

Any integer type is read. A file without `meta` is taken for the bare arrays of a snapshot's history.

Format history:
    1 (2026-12)  first version.
"""

from __future__ import annotations

import json
import lzma
import os
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from autotune.errors import TraceError, WorkFailedError, is_full_disk
from autotune.trace.events import OTHER, Events, Live
from autotune.trace.trace import Recording, Trace
from autotune.trace.unpickle import ACTIONS, MAX_EVENTS
from autotune.units import printable

FORMAT, VERSION = "autotune-trace", 1
ZIP_MAGIC = b"PK\x03\x04"

Arrays = dict[str, npt.NDArray[Any]]

REQUIRED = ("action", "addr", "size", "stream")
PER_EVENT = (*REQUIRED, "time_us", "pool")
PER_LIVE_BLOCK = ("live_addr", "live_size", "live_stream", "live_pool")
NAMES = (*PER_EVENT, *PER_LIVE_BLOCK, "actions", "step_end", "meta")
MAX_HEADER = 4096
MAX_LENGTHS = {"actions": 255, "meta": 1 << 20}


def looks_like_archive(path: Path) -> bool:
    """Whether the file is one of these, going by its table of contents."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {f"{name}.npy" for name in PER_EVENT} <= set(archive.namelist())
    except (OSError, zipfile.BadZipFile, UnicodeDecodeError):
        return False


def read_archive(path: Path) -> tuple[Events, Recording]:
    """Events and recording of an .npz file.

    Raises:
        TraceError: no archive, damaged, of a newer format, or with arrays of other kinds than above; the
            text continues "FILE …".
    """
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = _read_arrays(archive)
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        NotImplementedError,
        RuntimeError,
        OverflowError,
        UnicodeDecodeError,
        lzma.LZMAError,
    ) as error:
        raise TraceError(f"is a damaged archive ({str(error)[:100]}).") from None
    return _events(arrays), _recording(arrays.get("meta"))


def _read_arrays(archive: zipfile.ZipFile) -> Arrays:
    """The arrays known by name. All headers are checked before the first array is unpacked."""
    members = {name: archive.getinfo(f"{name}.npy") for name in NAMES if f"{name}.npy" in archive.namelist()}
    missing = [name for name in (*REQUIRED, "actions") if name not in members]
    if missing:
        raise TraceError(f"is an archive, but no trace: it has no array '{missing[0]}'.")
    shapes = {}
    for name, member in members.items():
        with archive.open(member) as file:
            shapes[name] = _header(name, member.file_size, file)
    for group in (PER_EVENT, PER_LIVE_BLOCK):
        lengths = {name: shapes[name][1] for name in group if name in shapes}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
            raise TraceError(f"has columns of unequal length ({listed}); it is damaged.")
    arrays = Arrays()
    for name, (dtype, length) in shapes.items():
        with archive.open(members[name]) as file:
            file.seek(members[name].file_size - length * dtype.itemsize)
            arrays[name] = np.frombuffer(file.read(length * dtype.itemsize), dtype, length)
    return arrays


def _header(name: str, declared: int, file: IO[bytes]) -> tuple[np.dtype[Any], int]:
    """Type and length of one array, if they are legal and agree with the declared size of the file."""
    try:
        major, _ = np.lib.format.read_magic(file)
        if major not in (1, 2):
            raise ValueError("unknown .npy version")
        read = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file, max_header_size=MAX_HEADER)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise TraceError(f"has a damaged array '{name}' ({str(error)[:100]}).") from None
    legal = "U" if name == "actions" else "iu"
    if dtype.kind not in legal or dtype.itemsize > 256 or len(shape) != 1:
        raise TraceError(f"has an array '{name}' of type {dtype} and shape {shape}, which no trace has.")
    if declared != file.tell() + shape[0] * dtype.itemsize:
        raise TraceError(f"has an array '{name}' that is shorter or longer than it says; it is damaged.")
    limit = MAX_LENGTHS.get(name, MAX_EVENTS)
    if shape[0] > limit:
        raise TraceError(f"has {shape[0]:,} rows in '{name}'; at most {limit:,} can be read.")
    return dtype, int(shape[0])


def _events(arrays: Arrays) -> Events:
    action = _unsigned("action", arrays["action"])
    length = len(action)
    known = {name: code for code, name in enumerate(ACTIONS)}
    codes = np.array([known.get(str(name), OTHER) for name in arrays["actions"]], np.uint8)
    if length and int(action.max()) >= len(codes):
        raise TraceError(f"has action {int(action.max())}, but names only {len(codes)} actions.")
    nothing = np.zeros(0, np.uint64)
    live = {name: _unsigned(name, arrays.get(f"live_{name}", nothing)) for name in ("addr", "size", "stream")}
    live["pool"] = _unsigned("live_pool", arrays.get("live_pool", np.zeros(len(live["addr"]), np.uint64)))
    if len({len(column) for column in live.values()}) > 1:
        raise TraceError(
            "describes the blocks alive before it only in part: live_addr, live_size, live_stream."
        )
    ends = _unsigned("step_end", arrays.get("step_end", nothing))
    if np.any(ends > length) or np.any(ends[1:] < ends[:-1]):
        raise TraceError(f"has step boundaries that do not fit its {length:,} events.")
    zeros = np.zeros(length, np.uint64)
    return Events(
        action=codes[action] if length else np.zeros(0, np.uint8),
        addr=_unsigned("addr", arrays["addr"]),
        size=_unsigned("size", arrays["size"]),
        stream=_unsigned("stream", arrays["stream"]),
        pool=_unsigned("pool", arrays.get("pool", zeros)),
        time_us=_unsigned("time_us", arrays.get("time_us", zeros)),
        live=Live(**live),
        step_ends=tuple(int(end) for end in ends),
    )


def _unsigned(name: str, values: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    if values.dtype.kind == "i" and np.any(values < 0):
        raise TraceError(f"has a negative number in '{name}'; it is damaged.")
    return values.astype(np.uint64)


def _recording(meta: npt.NDArray[Any] | None) -> Recording:
    """What `meta` says of the recorded run."""
    if meta is None:
        return Recording()
    try:
        document = json.loads(meta.astype(np.uint8).tobytes())
        if document.get("format") != FORMAT:
            raise ValueError("its format is not autotune-trace")
        if document["version"] > VERSION:
            raise TraceError(
                f"was written by a newer autotune (format {document['version']}; this one reads up to "
                f"{VERSION}); upgrade autotune."
            )
        return Recording(**{name: _checked(name, document[name]) for name in _KINDS if name in document})
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise TraceError(f"has a damaged description ({str(error)[:100]}).") from None


_KINDS: Mapping[str, tuple[type, ...]] = {
    "torch": (str, type(None)),
    "gpu": (str, type(None)),
    "device_total_bytes": (int, type(None)),
    "memory_fraction": (float, int, type(None)),
    "settings": (str,),
    "estimated": (bool,),
    "observed": (dict,),
    "operators": (dict,),
    "script": (str, type(None)),
    "notes": (list,),
}
"""Field of Recording → the types it may have in JSON."""


def _checked(name: str, value: Any) -> Any:
    if not isinstance(value, _KINDS[name]):
        raise ValueError(f"'{name}' is {value!r:.60}")
    if isinstance(value, dict) and name == "operators":
        return {str(key): (_count(pair[0]), _count(pair[1])) for key, pair in value.items()}
    if isinstance(value, dict):
        return {str(key): _count(number) for key, number in value.items()}
    if isinstance(value, list):
        return tuple(printable(str(note)) for note in value)
    if name == "device_total_bytes" and value is not None and not _count(value) > 0:
        raise ValueError(f"'{name}' is {value!r:.60}")
    if name == "memory_fraction" and isinstance(value, int | float) and not 0 < value <= 1:
        raise ValueError(f"'{name}' is {value!r:.60}")
    return printable(value) if isinstance(value, str) else value


def _count(value: Any) -> int:
    """A number that arithmetic with 64 bits can hold."""
    number = int(value)
    if isinstance(value, bool) or not 0 <= number < 1 << 62:
        raise ValueError(f"{value!r:.60} is no number of bytes")
    return number


def write_archive(trace: Trace, path: Path) -> None:
    """Write the trace; the file appears whole or not at all. A block's address is its id.

    Raises:
        TraceError: the folder cannot be written.
        WorkFailedError: the disk is full.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        try:
            with partial.open("xb") as file:
                np.savez_compressed(file, allow_pickle=False, **_arrays(trace))
                file.flush()
                os.fsync(file.fileno())  # a full disk may show itself only here
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        kind = WorkFailedError if is_full_disk(error) else TraceError
        raise kind(f"'{path}' cannot be written: {error.strerror}; nothing was left behind.") from None


def _arrays(trace: Trace) -> Arrays:
    before, oom = trace.num_preexisting, trace.oom_size is not None
    names = ("alloc", "free_completed", "oom")
    action = np.where(trace.is_alloc, 0, 1).astype(np.uint8)
    if oom:
        action[-1] = 2
    columns: Arrays = {
        "addr": trace.block.astype(np.uint64),
        "size": trace.size.astype(np.uint64),
        "stream": trace.stream.astype(np.uint64),
        "pool": trace.pool.astype(np.uint32),
    }
    if oom:
        columns["addr"][-1] = trace.recording.observed.get("device_free_bytes_at_oom", 0)
    document: dict[str, Any] = {item.name: getattr(trace.recording, item.name) for item in fields(Recording)}
    document |= {"format": FORMAT, "version": VERSION, "observed": dict(trace.recording.observed)}
    document["operators"] = dict(trace.recording.operators)
    return {
        "action": action[before:],
        "time_us": trace.time_us[before:].astype(np.uint64),
        **{name: column[before:] for name, column in columns.items()},
        **{f"live_{name}": column[:before] for name, column in columns.items()},
        "actions": np.array(names),
        "step_end": np.array([end - before for end in trace.step_ends], np.uint64),
        "meta": np.frombuffer(json.dumps(document).encode(), np.uint8),
    }
