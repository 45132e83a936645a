"""Turn a PyTorch memory snapshot into columns, in a process of its own. Standard library only.

    python -I -S unpickle.py FILE MEMORY_BYTES CPU_SECONDS

A snapshot may come from a stranger, and a pickle is a program. Here it can name no function (`find_class`
refuses everything: a snapshot holds dicts, lists, tuples, strings and numbers), and what a hostile one can
still do to an interpreter (crash it by deep nesting, eat memory or time) ends with this process: the kernel
enforces the ceilings, where it has them. Stack frames, most of a large snapshot, die here too.

The answer on stdout is one line of JSON, {"error": sentence} or the following, then the columns it lists, as
raw native integers:

    {"columns": [[name, array typecode, length], ...], "settings": {...}, "fields": [...]}

Columns of device N's history are named `N/action` (index into ACTIONS), `N/addr`, `N/size`, `N/stream`,
`N/time_us`, `N/pool`; those of the memory map `segment/…` and, for blocks in use, `block/…`.
"""

from __future__ import annotations

import gc
import gzip
import json
import pickle
import sys
from array import array
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO, NoReturn

ACTIONS = ("alloc", "free_completed", "free_requested", "segment_alloc", "segment_free",
           "segment_map", "segment_unmap", "oom", "other")  # fmt: skip
"""Kinds of events; `other` is everything that moves no memory (snapshot, annotate, what is yet to come)."""

POOL_UNKNOWN = 0xFFFF_FFFF
"""In `N/pool`: this torch (before 2.12) did not record the pool."""

GZIP_MAGIC = b"\x1f\x8b"
MAX_EVENTS = 25_000_000
"""A limit against small files that expand without end; a recording this long would be gigabytes."""
MAX_HEADER = 1 << 20
OUT_OF_PROPORTION = "needs far more memory than its size explains; it is damaged or hostile."

IN_USE = ("active_allocated", "active_awaiting_free", "active_pending_free")
"""States of a block that is not free; the last is an older name of the second."""

Columns = dict[str, "array[int]"]


class Refused(Exception):
    """The file is no snapshot; the text continues a sentence that begins with the file's name."""


class SnapshotUnpickler(pickle.Unpickler):
    """An unpickler that knows no classes and no functions."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Refuse, whatever it is."""
        raise Refused(f"asks for {module[:60]}.{name[:60]}, which no snapshot needs; nothing of it was run.")

    def persistent_load(self, pid: object) -> NoReturn:
        """Refuse, whatever it is."""
        raise Refused("refers to objects outside of itself, which no snapshot does.")


def set_ceilings(memory_bytes: int, cpu_seconds: int) -> None:
    """Let the kernel stop this process above these limits; a no-op where there is no `resource` module."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def read(file: BinaryIO | gzip.GzipFile) -> dict[str, Any]:
    """The snapshot in a pickle file, or in a gzip around one."""
    try:
        snapshot = SnapshotUnpickler(file).load()
    except Refused:
        raise
    except MemoryError:
        raise Refused(OUT_OF_PROPORTION) from None
    except Exception as error:  # a damaged pickle may raise anything
        raise Refused(f"is damaged or cut short ({str(error)[:100] or type(error).__name__}).") from None
    if isinstance(snapshot, list):
        raise Refused("is a list; dump the whole snapshot with torch.cuda.memory._dump_snapshot(FILE).")
    if not isinstance(snapshot, dict) or not isinstance(snapshot.get("device_traces"), list):
        raise Refused("is a pickle, but not one that torch.cuda.memory._dump_snapshot wrote.")
    return snapshot


class Pools:
    """Dense numbers for pool ids such as (0, 1); the default pool is 0."""

    def __init__(self) -> None:
        self._numbers = {(0, 0): 0}

    def number(self, entry: Mapping[str, Any], key: str) -> int:
        """The entry's pool, or POOL_UNKNOWN."""
        pool = entry.get(key)
        return POOL_UNKNOWN if pool is None else self._numbers.setdefault(tuple(pool), len(self._numbers))


def columns_of(snapshot: dict[str, Any]) -> Columns:
    """The snapshot's numbers, without frames, annotations and names."""
    pools, columns = Pools(), Columns()
    if sum(map(len, snapshot["device_traces"])) > MAX_EVENTS:
        raise ValueError(f"it has more than {MAX_EVENTS:,} events")
    for device, entries in enumerate(snapshot["device_traces"]):
        if entries:
            columns |= event_columns(f"{device}/", entries, pools)
    segments = snapshot.get("segments") or []
    columns |= block_columns("segment/", segments, segments, pools, size="total_size")
    owners, blocks = [], []
    for segment in segments:
        for block in segment.get("blocks", ()):
            if block["state"] in IN_USE:
                owners.append(segment)
                blocks.append(block)
    return columns | block_columns("block/", owners, blocks, pools, size="requested_size")


def event_columns(prefix: str, entries: list[dict[str, Any]], pools: Pools) -> Columns:
    """One device's history. An `oom` has `device_free` in the place of an address."""
    codes = {name: code for code, name in enumerate(ACTIONS)}
    other = codes["other"]
    return {
        f"{prefix}action": array("B", [codes.get(entry["action"], other) for entry in entries]),
        f"{prefix}addr": array("Q", [entry.get("addr") or entry.get("device_free", 0) for entry in entries]),
        f"{prefix}pool": array("I", [pools.number(entry, "pool_id") for entry in entries]),
        **{
            f"{prefix}{key}": array("Q", [entry.get(key, 0) for entry in entries])
            for key in ("size", "stream", "time_us")
        },
    }


def block_columns(
    prefix: str,
    segments: Iterable[dict[str, Any]],
    parts: Iterable[dict[str, Any]],
    pools: Pools,
    *,
    size: str,
) -> Columns:
    """Address and size of parts (segments themselves, or blocks of theirs), and whose they are."""
    return {
        f"{prefix}addr": array("Q", [part["address"] for part in parts]),
        f"{prefix}size": array("Q", [part[size] for part in parts]),
        f"{prefix}stream": array("Q", [segment["stream"] for segment in segments]),
        f"{prefix}device": array("I", [segment.get("device", 0) for segment in segments]),
        f"{prefix}pool": array("I", [pools.number(segment, "segment_pool_id") for segment in segments]),
    }


def fields_of(snapshot: dict[str, Any]) -> list[str]:
    """Names of the keys in use; they tell the releases of torch apart."""
    names = [*snapshot, *snapshot.get("allocator_settings", {})]
    for entries in snapshot["device_traces"]:
        names += entries[0] if entries else []
    return [name for name in names if isinstance(name, str)]


def answer(path: str) -> tuple[dict[str, Any], Columns]:
    """Header and columns for the file."""
    with open(path, "rb") as file:
        packed = file.peek(2)[:2] == GZIP_MAGIC
        snapshot = read(gzip.GzipFile(fileobj=file) if packed else file)
    try:
        columns = columns_of(snapshot)
        header = {
            "columns": [[name, column.typecode, len(column)] for name, column in columns.items()],
            "settings": snapshot.get("allocator_settings", {}),
            "fields": fields_of(snapshot),
        }
        if len(json.dumps(header)) > MAX_HEADER:
            raise ValueError("its settings are too long")
    except MemoryError:
        raise Refused(OUT_OF_PROPORTION) from None
    except Exception as error:  # any shape may be inside
        raise Refused(f"is not laid out as PyTorch's snapshots are ({str(error)[:100]}).") from None
    return header, columns


def main() -> None:
    """Answer on stdout."""
    path, memory_bytes, cpu_seconds = sys.argv[1:]
    set_ceilings(int(memory_bytes), int(cpu_seconds))
    gc.disable()  # nothing here is garbage before the end, and there are millions of objects to walk
    columns = Columns()
    try:
        header, columns = answer(path)
    except Refused as error:
        header = {"error": str(error)}
    sys.stdout.buffer.write(json.dumps(header).encode() + b"\n")
    for column in columns.values():
        sys.stdout.buffer.write(column.tobytes())


if __name__ == "__main__":
    main()
