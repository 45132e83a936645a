"""Writing a trace file, with the standard library only: a .npz archive of arrays of one row an event.

The format is `autotune-trace` version 1; the reader, `autotune.trace`, documents it.
"""

from __future__ import annotations

import json
import os
import sys
import zipfile
from array import array
from typing import Any

ACTIONS = (
    "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free",
    "segment_map", "segment_unmap", "snapshot", "oom", "annotate",
)  # fmt: skip
"""PyTorch's names of allocation events."""

COUNTED = {"alloc": "allocs", "free_requested": "frees_requested", "free_completed": "frees_completed"}
"""Action → name of the count that a step boundary notes."""

_DTYPES = {"B": "u1", "I": "u4", "Q": "u8"}


class Events:
    """Allocation events in time order, column by column."""

    def __init__(self) -> None:
        self.action, self.pool = array("B"), array("I")
        self.addr, self.size, self.stream, self.time_us = (array("Q") for _ in range(4))
        self.step_ends: list[int] = []
        """Number of events before the end of each step."""
        self._actions = {name: code for code, name in enumerate(ACTIONS)}
        self._positions: dict[str, array[int]] = {}

    def add(self, action: str, addr: int, size: int, stream: int, time_us: int, pool: int = 0) -> None:
        """Append one event. `size` is what was requested, before rounding."""
        # A newer torch may have further actions; the reader skips what it does not know.
        self.action.append(self._actions.setdefault(action, len(self._actions)))
        self.addr.append(addr)
        self.size.append(size)
        self.stream.append(stream)
        self.time_us.append(time_us)
        self.pool.append(pool)

    def position_after(self, counts: dict[str, Any]) -> int:
        """Number of events once each kind has happened as often as `counts` says."""
        position = 0
        for action, name in COUNTED.items():
            position = max(position, self._position_of(action, counts[name]))
        return position

    def _position_of(self, action: str, count: int) -> int:
        """Number of events up to and including the `count`-th of an action."""
        if count <= 0:
            return 0
        index = self._positions.get(action)
        if index is None:
            code = self._actions[action]
            index = self._positions[action] = array(
                "Q", (i + 1 for i, a in enumerate(self.action) if a == code)
            )
        return index[min(count, len(index)) - 1] if index else 0

    def write(self, path: str, meta: dict[str, Any]) -> None:
        """Write the file whole or not at all; raise OSError when it cannot be."""
        document = {"format": "autotune-trace", "version": 1, **meta}
        partial = f"{path}.partial"
        try:
            with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as archive:
                for name in ("action", "addr", "size", "stream", "time_us", "pool"):
                    _write_array(archive, name, getattr(self, name))
                _write_array(archive, "step_end", array("Q", self.step_ends))
                _write_array(archive, "meta", array("B", json.dumps(document).encode()))
                text = b"".join(name[:14].ljust(14, "\0").encode("utf-32-le") for name in self._actions)
                _write_member(archive, "actions", "<U14", len(self._actions), text)
            os.replace(partial, path)
        finally:
            if os.path.exists(partial):
                os.unlink(partial)


def _write_array(archive: zipfile.ZipFile, name: str, values: array[int]) -> None:
    order = "<" if sys.byteorder == "little" else ">"
    _write_member(archive, name, order + _DTYPES[values.typecode], len(values), values.tobytes())


def _write_member(archive: zipfile.ZipFile, name: str, dtype: str, length: int, data: bytes) -> None:
    """One array in NumPy's .npy format, version 1.0 (numpy.lib.format)."""
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({length},), }}"
    padding = -(10 + len(header) + 1) % 64
    text = (header + " " * padding + "\n").encode("latin1")
    archive.writestr(f"{name}.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data)
