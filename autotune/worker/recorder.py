"""Recorder: notes when tensors' storages begin and end, on any device, without asking that device.

Every operation's inputs and outputs are looked at; a storage not seen before is an allocation of its bytes,
and its end is told by a weak reference. Views share a storage and add nothing; what autograd saves lives on
by itself. Bytes are the storage's, which is what a CUDA allocator would have been asked for.

Not seen: memory that an operation takes and gives back inside itself (workspaces, temporaries of sorting).
"""

from __future__ import annotations

import os
import threading
import weakref
from array import array
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .trace_file import Events

PLAIN = (torch.Tensor, torch.nn.Parameter)


class _Storage(weakref.ref):  # type: ignore[type-arg]
    """A live storage; holds no reference that would keep it alive."""

    __slots__ = ("index", "key", "placed", "size")

    index: int
    """Number of the allocation in the recording."""
    key: int
    """Address of the StorageImpl; unique while it lives."""
    placed: bool
    """Whether the script put it on a GPU by name."""
    size: int


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode that records storages.

    Args:
        counts: whether a tensor's storage belongs to the recorded device.
    """

    def __init__(self, counts: Callable[[torch.Tensor], bool]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._counts = counts
        self._live: dict[int, _Storage] = {}
        self._sizes = array("Q")
        self._placed = bytearray()
        # One integer an event, so that an end noted in the middle of another append cannot tear a row.
        self._log = array("Q")
        self._enabled = True
        os.register_at_fork(after_in_child=self.disable)  # DataLoader workers have nothing to record

    def disable(self) -> None:
        """Record nothing more."""
        self._enabled = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operation and look at its tensors."""
        if any(kind not in PLAIN for kind in types):
            return NotImplemented  # a subclass made of other tensors; its own operations come by later
        if not self._enabled:
            return func(*args, **(kwargs or {}))
        return self._run(func, args, kwargs or {})

    def _run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        placed = self._note_all(args, False) | self._note_all(kwargs.values(), False)
        result = func(*args, **kwargs)
        self._note_all((result,), placed)
        return result

    def _note_all(self, values: Any, placed: bool) -> bool:
        """Note every tensor among `values`; whether one of them is placed."""
        found = False
        for value in values:
            if isinstance(value, torch.Tensor):
                found |= self._note(value, placed)
            elif isinstance(value, (list, tuple)):
                found |= self._note_all(value, placed)
        return found

    def _note(self, tensor: torch.Tensor, placed: bool) -> bool:
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # sparse, opaque: no storage
            return False
        known = self._live.get(storage._cdata)
        if known is None:
            return self._begin(storage, placed, self._counts(tensor)).placed
        size = storage.nbytes()
        if size != known.size:  # resized in place: the bytes moved elsewhere
            self._resize(known, size)
        return known.placed

    def _begin(self, storage: Any, placed: bool, counted: bool) -> _Storage:
        entry = _Storage(storage, self._ended)
        entry.key, entry.placed, entry.size = storage._cdata, placed, storage.nbytes() if counted else 0
        self._live[entry.key] = entry
        self._alloc(entry)
        return entry

    def _alloc(self, entry: _Storage) -> None:
        entry.index = len(self._sizes)
        self._sizes.append(entry.size)
        self._placed.append(entry.placed)
        self._log.append(entry.index << 1)

    def _resize(self, entry: _Storage, size: int) -> None:
        self._log.append(entry.index << 1 | 1)
        entry.size = size
        self._alloc(entry)

    def _ended(self, entry: Any) -> None:
        self._log.append(entry.index << 1 | 1)
        self._live.pop(entry.key, None)

    def place(self, tensor: torch.Tensor, placed: bool = True) -> None:
        """Say that the script put a tensor on the GPU, or took it off."""
        self._note(tensor, placed)
        entry = self._live.get(tensor.untyped_storage()._cdata)
        if entry is not None:
            entry.placed = placed
            self._placed[entry.index] = placed

    def is_placed(self, tensor: torch.Tensor) -> bool:
        """Whether the script put this tensor's storage on the GPU."""
        try:
            entry = self._live.get(tensor.untyped_storage()._cdata)
        except (NotImplementedError, RuntimeError):
            return False
        return entry is not None and entry.placed

    @property
    def position(self) -> int:
        """Number of events so far."""
        return len(self._log)

    def events(self, step_positions: list[int]) -> Events:
        """What was recorded, with step ends at the given positions.

        If the script put anything on a GPU by name, only that counts; else everything does.
        """
        log = self._log[:]
        only_placed = any(self._placed)
        events, ends, addresses, address = Events(), list(step_positions), {}, 1 << 30
        for position, item in enumerate(log):
            while ends and ends[0] <= position:
                events.step_ends.append(len(events.action))
                del ends[0]
            index, is_free = item >> 1, item & 1
            size = self._sizes[index]
            if size == 0 or (only_placed and not self._placed[index]):
                continue
            if not is_free:
                addresses[index] = address
                address += (size + 1023) // 512 * 512
            events.add("free_completed" if is_free else "alloc", addresses[index], size, 0, 0)
        events.step_ends += [len(events.action)] * len(ends)
        return events


def record_threads(recorder: Recorder) -> None:
    """Dispatch modes belong to one thread; have every thread that the script starts enter `recorder` too."""
    bootstrap = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def enter(thread: threading.Thread) -> None:
        with recorder:
            bootstrap(thread)

    threading.Thread._bootstrap_inner = enter  # type: ignore[attr-defined]
