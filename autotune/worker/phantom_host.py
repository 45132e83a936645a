"""The CPU's side of the phantom device: real tensors, but no time and memory for numbers that nobody needs.

A model that is built on the CPU and then moved would fill gigabytes with random numbers, only for the
phantom device to ignore them. So a large floating-point tensor of `torch.empty` is *blank*: its pages are
the system's, untouched; operations that would fill it from nothing but itself are left out, and a copy of
it is blank too. Reading one gives zeros. Whatever brings in other data (a `copy_`, an index) makes it an
ordinary tensor.
"""

from __future__ import annotations

import math
import mmap
import weakref
from typing import Any

import torch

aten = torch.ops.aten
BLANK_BYTES = 1 << 20
STAND_IN_BYTES = 64 << 20
"""A copy from the phantom device that is larger than this is blank."""
EMPTY = {
    aten.empty.memory_format,
    aten.empty_strided.default,
    aten.empty_like.default,
    aten.new_empty.default,
}
COPIES = {aten._to_copy.default, aten.clone.default}


class Host:
    """Runs operations on the CPU."""

    def __init__(self) -> None:
        self._blank: dict[int, Any] = {}
        self._pinned: dict[int, Any] = {}

    def run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """One operation of which no tensor is on the phantom device."""
        if func in (aten._pin_memory.default, aten.pin_memory.default):
            return self._pin(args[0].clone())
        if func is aten.is_pinned.default:
            return args[0].untyped_storage()._cdata in self._pinned
        if kwargs.get("pin_memory"):
            return self._pin(func(*args, **{**kwargs, "pin_memory": False}))
        if func in EMPTY and kwargs.get("device") in (None, torch.device("cpu")):
            return self._empty(func, args, kwargs)
        if self._blank and args and isinstance(args[0], torch.Tensor) and self._is_blank(args[0]):
            if func in COPIES and kwargs.get("device") in (None, torch.device("cpu")):
                return self._copy(func, args, kwargs)
            if self._fills_itself(func, args):
                return args[0]
            if func._schema.is_mutable:
                del self._blank[args[0].untyped_storage()._cdata]
        return func(*args, **kwargs)

    def stand_in(self, shape: Any, dtype: torch.dtype) -> torch.Tensor:
        """A tensor of ones for values that are not known; blank if it is large."""
        if math.prod(shape) * dtype.itemsize > STAND_IN_BYTES and dtype.is_floating_point:
            return self._blank_tensor(shape, torch.empty(shape, dtype=dtype, device="meta").stride(), dtype)
        return torch.ones(shape, dtype=dtype)

    def _pin(self, tensor: torch.Tensor) -> torch.Tensor:
        _remember(self._pinned, tensor)
        return tensor

    def _empty(self, func: Any, args: Any, kwargs: dict[str, Any]) -> torch.Tensor:
        meta = func(*args, **{**kwargs, "device": torch.device("meta")})
        return self._blank_like(meta) if _is_large(meta) else func(*args, **kwargs)

    def _copy(self, func: Any, args: Any, kwargs: dict[str, Any]) -> torch.Tensor:
        form = {name: kwargs[name] for name in ("dtype", "memory_format") if kwargs.get(name) is not None}
        meta = torch.empty_like(args[0], device="meta", **form)
        return self._blank_like(meta) if _is_large(meta) else func(*args, **kwargs)

    def _blank_like(self, meta: torch.Tensor) -> torch.Tensor:
        return self._blank_tensor(meta.shape, meta.stride(), meta.dtype)

    def _blank_tensor(self, shape: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
        elements = 1 + sum((size - 1) * step for size, step in zip(shape, stride))  # noqa: B905
        pages = mmap.mmap(-1, elements * dtype.itemsize)
        blank = torch.frombuffer(pages, dtype=dtype).as_strided(shape, stride)
        _remember(self._blank, blank)
        return blank

    def _is_blank(self, tensor: torch.Tensor) -> bool:
        return tensor.layout == torch.strided and tensor.untyped_storage()._cdata in self._blank

    def _fills_itself(self, func: Any, args: Any) -> bool:
        """Whether an in-place operation takes nothing but numbers: `normal_`, `mul_` by a number."""
        name = func._schema.name
        return name.endswith("_") and not any(
            isinstance(argument, (torch.Tensor, list)) for argument in args[1:]
        )


def _is_large(meta: torch.Tensor) -> bool:
    return meta.is_floating_point() and meta.numel() * meta.itemsize >= BLANK_BYTES


def _remember(table: dict[int, Any], tensor: torch.Tensor) -> None:
    storage = tensor.untyped_storage()
    key = storage._cdata
    table[key] = weakref.ref(storage, lambda _: table.pop(key, None))
