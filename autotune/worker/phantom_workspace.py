"""What libraries and operators take besides their results."""

from __future__ import annotations

import os
import threading
from typing import Any

import torch

from .phantom_storage import Storages, current_stream

aten = torch.ops.aten

CUBLAS = {
    aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default, aten.mv.default,
    aten.addmv.default, aten.dot.default, aten.vdot.default, aten.addbmm.default,
}  # fmt: skip


def cublas_workspace_bytes(capability: tuple[int, int]) -> int:
    """Bytes of cuBLAS's workspace, one for every thread and stream that uses it.

    As PyTorch chooses it (aten/src/ATen/cuda/CublasHandlePool.cpp): `CUBLAS_WORKSPACE_CONFIG` as `:KiB:count`
    pairs, else 32 MiB from Hopper on and 8,320 KiB before.
    """
    words = os.environ.get("CUBLAS_WORKSPACE_CONFIG", "").split(":")[1:]
    if words and len(words) % 2 == 0 and all(word.isdigit() for word in words):
        return sum(int(size) * 1024 * int(count) for size, count in zip(words[::2], words[1::2]))  # noqa: B905
    return 4096 * 8 * 1024 if capability >= (9, 0) else 4096 * 2 * 1024 + 16 * 8 * 1024


class Workspaces:
    """Asks the allocator for them."""

    def __init__(self, storages: Storages, capability: tuple[int, int]) -> None:
        self._storages = storages
        self._cublas_bytes = cublas_workspace_bytes(capability)
        self._handles: set[tuple[int, int]] = set()

    def take(self, func: Any, args: Any, outputs: list[torch.Tensor]) -> None:
        """Take what one operation takes beyond its outputs, which exist already."""
        if func in CUBLAS:
            handle = (threading.get_ident(), current_stream(0))
            if handle not in self._handles:
                self._handles.add(handle)
                self._storages.keep(self._cublas_bytes)
