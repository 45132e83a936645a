"""Storages of phantom tensors: each is a real request to PyTorch's CUDA allocator, which runs on a stand-in
device.

Nothing is ever written to that memory; asking for it and giving it back is what makes the allocator's own
statistics, history, limits and out-of-memory errors come out as they would on the GPU.
"""

from __future__ import annotations

import os
import weakref
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

alloc = torch._C._cuda_cudaCachingAllocator_raw_alloc
delete = torch._C._cuda_cudaCachingAllocator_raw_delete
current_stream = torch._C._cuda_getCurrentRawStream


class _Storage(weakref.ref):  # type: ignore[type-arg]
    """A live storage; holds no reference that would keep it alive."""

    __slots__ = ("address", "key", "size", "value")

    address: int
    """What the allocator gave for it; 0 while it has no bytes."""
    key: int
    """Address of the StorageImpl; unique while it lives."""
    size: int
    value: Any
    """The bytes as a real storage on the CPU, where they are known; see `phantom_values`."""


class Storages:
    """The phantom storages that live now."""

    def __init__(self) -> None:
        self._live: dict[int, _Storage] = {}
        self.enabled = True
        self.operator = ""
        """Name of the operation that asks."""
        self.asked: dict[str, list[int]] = {}
        """Operation → number of requests and bytes in all."""
        os.register_at_fork(after_in_child=self.disable)  # DataLoader workers have no GPU

    def disable(self) -> None:
        """Leave the allocator alone from now on."""
        self.enabled = False

    def of(self, tensor: torch.Tensor) -> _Storage:
        """The storage of a phantom tensor; one not seen before is allocated.

        Raises:
            torch.cuda.OutOfMemoryError: the allocator has no room for it.
        """
        storage = tensor.untyped_storage()
        known = self._live.get(storage._cdata)
        size = storage.nbytes()
        if known is None:
            return self._begin(storage, size)
        if size != known.size:  # resized in place: the bytes moved elsewhere
            self._give_back(known)
            self._ask(known, size)
        return known

    def _begin(self, storage: Any, size: int) -> _Storage:
        entry = _Storage(storage, self._ended)
        entry.key, entry.value, entry.address = storage._cdata, None, 0
        self._ask(entry, size)
        self._live[entry.key] = entry
        return entry

    def _ask(self, entry: _Storage, size: int) -> None:
        entry.size = size
        entry.address = self._alloc(size) if size and self.enabled else 0

    def _alloc(self, size: int) -> int:
        count = self.asked.setdefault(self.operator, [0, 0])
        count[0] += 1
        count[1] += size
        return int(alloc(size, current_stream(0)))

    def _give_back(self, entry: _Storage) -> None:
        if entry.address and self.enabled:
            delete(entry.address)
        entry.address = 0

    def _ended(self, entry: Any) -> None:
        self._live.pop(entry.key, None)
        self._give_back(entry)

    def transient(self, *sizes: int) -> None:
        """Memory that an operator takes, all at one time, and gives back before it returns."""
        if not self.enabled:
            return
        taken = [self._alloc(size) for size in sizes if size]
        for address in taken:
            delete(address)

    def keep(self, size: int) -> None:
        """Memory that a library takes for the rest of the run."""
        if size and self.enabled:
            self._alloc(size)


def is_phantom(value: Any) -> bool:
    """Whether this is a tensor on the phantom device. Its `is_cuda` says the same, ten times as slowly."""
    return isinstance(value, FakeTensor) and value.fake_device.type == "cuda"
