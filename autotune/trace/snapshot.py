"""Reading what `torch.cuda.memory._dump_snapshot` writes, with torch 2.4 or newer, also inside gzip.

The pickle is opened by `unpickle.py` in a process of its own; here its columns become Events. No torch is
needed. Field names by release were read off snapshots of torch 2.4 … 2.15.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil

from autotune.errors import SettingsError, TraceError
from autotune.settings import ENVIRONMENT_VARIABLE, AllocatorSettings
from autotune.trace import unpickle
from autotune.trace.events import (
    ALLOC,
    FREE_COMPLETED,
    OTHER,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    SEGMENT_MAP,
    SEGMENT_UNMAP,
    Events,
    Live,
)
from autotune.trace.trace import Recording
from autotune.units import MIB

Columns = Mapping[str, npt.NDArray[Any]]

BYTES_PER_PICKLED_BYTE = 16
"""Memory that unpickling may take; snapshots were seen to need 3 (deep stacks) to 8 (no stacks)."""
GZIP_RATIO = 16
PICKLED_BYTES_PER_SECOND = 5_000_000
"""Twenty times slower than seen."""

TORCH_BY_FIELD = (
    ("host_traces", "2.14", "2.14 or newer"),
    ("max_round_threshold", "2.13", "2.13"),
    ("pool_id", "2.12", "2.12"),
    ("user_metadata", "2.11", "2.10 or 2.11"),
    ("graph_capture_record_stream_reuse", "2.9", "2.9"),
    ("compile_context", "2.8", "2.8"),
    ("external_annotations", "2.7", "2.6 or 2.7"),
    ("segments", "2.5", "2.4 or 2.5"),
)
"""A field that a release brought → the newest release with these fields, and all of them in words."""


def read_snapshot(path: Path, *, device: int | None = None) -> tuple[Events, Recording]:
    """Events and recording of one device of a snapshot file.

    Args:
        path: a pickle, or a gzip around one.
        device: index of the GPU as the snapshot counts; None = the one with the most allocations.

    Raises:
        TraceError: not a snapshot, damaged, hostile, or without history; the text continues "FILE …".
    """
    header, columns = _unpickled(path)
    chosen, notes = _choose_device(columns, device)
    newest, releases = next(
        ((torch, words) for name, torch, words in TORCH_BY_FIELD if name in header["fields"]),
        TORCH_BY_FIELD[-1][1:],
    )
    recording = Recording(
        torch=newest,
        settings=settings_text(header["settings"]),
        notes=(*notes, f"The snapshot does not name its torch; its fields are those of torch {releases}."),
    )
    return _events(columns, chosen), recording


def _unpickled(path: Path) -> tuple[dict[str, Any], Columns]:
    """Header and columns from the child process."""
    pickled = _pickled_bytes(path)
    memory = min(256 * MIB + BYTES_PER_PICKLED_BYTE * pickled, int(0.7 * psutil.virtual_memory().available))
    seconds = 20 + pickled // PICKLED_BYTES_PER_SECOND
    # -I and -S: nothing of the environment, the working folder or site-packages runs in there.
    command = [sys.executable, "-I", "-S", unpickle.__file__, str(path), str(memory), str(seconds)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        raise TraceError(f"{_why_it_died(done.returncode)}; it is damaged or hostile.")
    line, _, body = done.stdout.partition(b"\n")
    header = json.loads(line)
    if "error" in header:
        raise TraceError(header["error"])
    columns, position = {}, 0
    for name, typecode, length in header["columns"]:
        dtype = np.dtype(typecode)
        columns[name] = np.frombuffer(body, dtype, length, position)
        position += length * dtype.itemsize
    return header, columns


def _pickled_bytes(path: Path) -> int:
    """Size of the pickle; for gzip the size it declares, which a wrong declaration can only lower."""
    size = path.stat().st_size
    with path.open("rb") as file:
        if file.read(2) != unpickle.GZIP_MAGIC:
            return size
        file.seek(-4, 2)
        return max(int.from_bytes(file.read(4), "little"), GZIP_RATIO * size)


def _why_it_died(status: int) -> str:
    if status == -getattr(signal, "SIGXCPU", 0):
        return "takes far longer to read than its size explains"
    if status == -getattr(signal, "SIGSEGV", 0):
        return "crashes Python's pickle reader by its nesting"
    if status in (-getattr(signal, "SIGKILL", 0), -getattr(signal, "SIGABRT", 0)):
        return "needs far more memory than its size explains"
    return f"cannot be read (the reader ended with status {status})"


def _choose_device(columns: Columns, device: int | None) -> tuple[int, tuple[str, ...]]:
    """The device asked for, or the busiest, and a note when there was a choice."""
    allocations = {
        int(name.removesuffix("/action")): int(np.sum(action == ALLOC))
        for name, action in columns.items()
        if name.endswith("/action") and np.any(action != OTHER)
    }
    if not allocations:
        raise TraceError(
            "holds the memory map but no history; call torch.cuda.memory._record_memory_history("
            "max_entries=1000000) at the start of the script, then dump again."
        )
    if device is None:
        busiest = max(allocations, key=lambda index: allocations[index])
        note = f"The snapshot holds {len(allocations)} devices; this is device {busiest}, the busiest."
        return busiest, (note,) if len(allocations) > 1 else ()
    if device not in allocations:
        known = ", ".join(f"{index} ({count:,} allocations)" for index, count in allocations.items())
        raise TraceError(f"has no history of device {device}; it has device {known}.")
    return device, ()


def _events(columns: Columns, device: int) -> Events:
    """One device's events, with the blocks alive before them and the memory reserved before them."""
    action = columns[f"{device}/action"]
    size = columns[f"{device}/size"]
    taken = int(size[np.isin(action, (SEGMENT_ALLOC, SEGMENT_MAP))].sum())
    given = int(size[np.isin(action, (SEGMENT_FREE, SEGMENT_UNMAP))].sum())
    at_end = int(columns["segment/size"][columns["segment/device"] == device].sum())
    return Events(
        action=action,
        addr=columns[f"{device}/addr"],
        size=size,
        stream=columns[f"{device}/stream"],
        pool=_pools(columns, device),
        time_us=columns[f"{device}/time_us"],
        live=_live(columns, device),
        reserved_before=max(0, at_end - (taken - given)),
    )


def _live(columns: Columns, device: int) -> Live:
    """Blocks in use at the end that no event mentions: they were there before the recording and stayed."""
    mentioned = np.unique(columns[f"{device}/addr"][columns[f"{device}/action"] <= FREE_COMPLETED])
    alive = (columns["block/device"] == device) & ~np.isin(columns["block/addr"], mentioned)
    addr, size, stream, pool = (
        columns[f"block/{name}"][alive] for name in ("addr", "size", "stream", "pool")
    )
    order = np.lexsort((addr, stream))
    return Live(
        addr=addr[order], size=size[order], stream=stream[order], pool=_known(pool)[order].astype(np.uint64)
    )


def _known(pool: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.where(pool == unpickle.POOL_UNKNOWN, 0, pool)


def _pools(columns: Columns, device: int) -> npt.NDArray[np.uint64]:
    """Pool of every event; where torch did not record it, that of the segment which lies there at the end.

    A segment speaks only for events after its own birth: before it, other memory may have had its address.
    """
    pool, addr = columns[f"{device}/pool"], columns[f"{device}/addr"]
    unknown = pool == unpickle.POOL_UNKNOWN
    found = _known(pool).astype(np.uint64)
    here = (columns["segment/device"] == device) & (_known(columns["segment/pool"]) != 0)
    if not np.any(unknown) or not np.any(here):
        return found
    births = {
        int(addr[row]): int(row) for row in np.flatnonzero(columns[f"{device}/action"] == SEGMENT_ALLOC)
    }
    for start, size, owner in zip(
        *(columns[f"segment/{name}"][here] for name in ("addr", "size", "pool")), strict=True
    ):
        inside = unknown & (addr >= start) & (addr < start + size)
        inside[: births.get(int(start), 0)] = False
        found[inside] = owner
    return found


def settings_text(reported: Mapping[str, Any]) -> str:
    """The environment string for a snapshot's `allocator_settings`.

    The string that torch was given says the most; where it cannot be read, the effective values are used.
    """
    try:
        try:
            return str(AllocatorSettings.parse(reported.get(ENVIRONMENT_VARIABLE) or _from_fields(reported)))
        except SettingsError:
            return _from_fields(reported)
    except (AttributeError, TypeError, ValueError):
        raise TraceError(
            "has allocator settings of a kind that PyTorch does not write; it is damaged."
        ) from None


def _from_fields(reported: Mapping[str, Any]) -> str:
    split = reported.get("max_split_size", -1)
    threshold = reported.get("garbage_collection_threshold", 0)
    table = reported.get("roundup_power2_divisions")
    divisions = (
        tuple((int(key), int(value)) for key, value in table.items()) if isinstance(table, dict) else ()
    )
    settings = AllocatorSettings(
        expandable_segments=True if reported.get("expandable_segments") is True else None,
        max_split_size_mb=int(split) // MIB if 0 < split < 1 << 60 else None,
        garbage_collection_threshold=float(f"{threshold:.6g}") if 0 < threshold < 1 else None,
        roundup_power2_divisions=divisions if any(value > 1 for _, value in divisions) else None,
    )
    return str(settings.canonical())
