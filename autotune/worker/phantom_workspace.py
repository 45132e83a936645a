"""What libraries and operators take besides their results.

cuBLAS's workspaces and the buffers of reductions follow PyTorch's own rules. The others are what an NVIDIA
H200 was asked for (torch 2.11), each as a rule of a line or two; benchmarks/measure_operators.py measures
them. An operator that is not here is taken to need nothing: cuFFT, cuSOLVER, NCCL, custom kernels among
them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import torch

from .phantom_convolution import convolution_bytes, is_channels_last, weight_gradient_bytes
from .phantom_reduction import INDEX_AND_VALUE_BYTES, Processors, reduction_bytes
from .phantom_storage import Storages, current_stream

aten = torch.ops.aten

CUBLAS = {
    aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default, aten.mv.default,
    aten.addmv.default, aten.dot.default, aten.vdot.default, aten.addbmm.default,
}  # fmt: skip
SORT_SPARE_BYTES = 28_000
"""Of a radix sort, besides a copy of its keys and values."""


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
    """Asks the allocator for them.

    Args:
        storages: what asks.
        capability: compute capability of the GPU.
        processors: streaming multiprocessors and their threads.
    """

    def __init__(self, storages: Storages, capability: tuple[int, int], processors: Processors) -> None:
        self._storages = storages
        self._cublas_bytes = cublas_workspace_bytes(capability)
        self._handles: set[tuple[int, int]] = set()
        self._processors = processors
        self._rules: dict[Any, Callable[..., list[int]]] = {**RULES, **self._reductions()}

    def take(self, func: Any, args: Any, outputs: list[torch.Tensor]) -> None:
        """Take what one operation takes beyond its outputs, which exist already; and give most of it back."""
        if func in CUBLAS:
            handle = (threading.get_ident(), current_stream(0))
            if handle not in self._handles:
                self._handles.add(handle)
                self._storages.keep(self._cublas_bytes)
            return
        rule = self._rules.get(func)
        if rule is None or not outputs:
            return
        self._storages.transient(*rule(args, outputs))

    def _reductions(self) -> dict[Any, Callable[..., list[int]]]:
        def reduce(args: Any, outputs: Any) -> list[int]:
            dims = args[1] if len(args) > 1 and isinstance(args[1], (list, tuple)) else None
            return reduction_bytes(args[0], dims, self._processors, max(args[0].itemsize, 4))

        def reduce_norm(args: Any, outputs: Any) -> list[int]:
            dims = args[2] if len(args) > 2 else None
            return reduction_bytes(args[0], dims, self._processors, max(args[0].itemsize, 4))

        def find(args: Any, outputs: Any) -> list[int]:
            dims = [args[1]] if len(args) > 1 and args[1] is not None else None
            return reduction_bytes(args[0], dims, self._processors, INDEX_AND_VALUE_BYTES)

        sums = (
            aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim, aten.amax.default,
            aten.amin.default, aten.max.default, aten.min.default, aten.prod.default,
        )  # fmt: skip
        return {
            **dict.fromkeys(sums, reduce),
            aten.linalg_vector_norm.default: reduce_norm,
            aten.argmax.default: find,
            aten.argmin.default: find,
        }


def _convolution(args: Any, outputs: Any) -> list[int]:
    return convolution_bytes(args[0], args[1], outputs[0], args[3], args[8])


def convolution_backward_bytes(args: Any) -> tuple[list[int], list[int]]:
    """For the gradient of the input, which is done first, and for that of the weight."""
    gradient, image, weight, _, stride = args[:5]
    groups, wanted = args[9], args[10]
    return (
        convolution_bytes(image, weight, gradient, stride, groups) if wanted[0] else [],
        weight_gradient_bytes(image, weight, gradient, stride, groups) if wanted[1] else [],
    )


def _batch_norm_grid(image: torch.Tensor) -> tuple[int, int, int]:
    """Channels and blocks of PyTorch's channels-last kernels (native/cuda/Normalization.cuh)."""
    channels = image.shape[1]
    rows = image.numel() // max(channels, 1)
    width = min(_power(channels), 32)
    height = min(_power(-(-rows // 16)), 512 // width)
    if width * height != 512:
        width = min(_power(channels), 512 // height)
    blocks = min(-(-rows // (height * 16)), 128)
    return channels, -(-channels // width), blocks if blocks >= 8 else 1


def _batch_norm(args: Any, outputs: Any) -> list[int]:
    if not is_channels_last(args[0]):
        return []
    channels, wide, blocks = _batch_norm_grid(args[0])
    return [4 * channels * blocks * 4, wide * 4] if blocks > 1 else []


def _batch_norm_backward(args: Any, outputs: Any) -> list[int]:
    if not is_channels_last(args[1]):
        return []
    channels, wide, blocks = _batch_norm_grid(args[1])
    sums = [4 * channels, 4 * channels]
    return [*sums, 2 * channels * blocks * 4, wide * 4] if blocks > 1 else sums


def _cudnn_attention(args: Any, outputs: Any) -> list[int]:
    return [256]


def _cudnn_attention_backward(args: Any, outputs: Any) -> list[int]:
    """The query's gradient and a sum a row in 32 bits; keys and values repeated for shared heads."""
    query, key = args[1:3]
    rows = query.numel() // query.shape[-1]
    shared = 2 * query.numel() * query.itemsize if key.shape[1] != query.shape[1] else 0
    return [4 * query.numel() + 4 * rows + 256 + shared]


def _flash_attention_backward(args: Any, outputs: Any) -> list[int]:
    """Sums a row, and the query's gradient in 32 bits, in whole tiles; keys and values as above."""
    gradient, query, key, _, out = args[:5]
    batch, heads, length, width = query.shape
    length, width = -(-length // 128) * 128, -(-width // 32) * 32
    copies = [
        one.numel() * one.itemsize for one in (gradient, out) if not one.transpose(1, 2).is_contiguous()
    ]
    shared = [query.numel() * query.itemsize] * 2 if key.shape[1] != heads else []
    return [*copies, batch * heads * length * 4, batch * heads * length * width * 4, *shared]


def _efficient_attention_backward(args: Any, outputs: Any) -> list[int]:
    query = args[1]
    batch, heads, length, width = query.shape
    rows = batch * heads * length * 4
    wide = 64 if width <= 64 else -(-width // 128) * 128
    product = [query.numel() * 4, rows] if query.itemsize == 4 else []
    return [*product, rows, batch * heads * (-(-length // 32) * 32) * wide * 4]


def _embedding_backward(args: Any, outputs: Any) -> list[int]:
    """Sorted indices, and the sums of partial segments (native/cuda/EmbeddingBackwardKernel.cu)."""
    gradient, indices, rows = args[:3]
    count = indices.numel()
    if count <= 3072:
        return []
    width = -(-gradient.shape[-1] // 32) * 32
    segments = count // 10 + min(count, rows)
    return [*[8 * count] * 6, 16 * count + SORT_SPARE_BYTES, 8 * segments, 4 * segments * width]


def _sort(args: Any, outputs: Any) -> list[int]:
    values = outputs[0]
    keys = values.numel() * (values.itemsize + 8) + SORT_SPARE_BYTES
    return [8 * values.numel()] if values.shape and values.shape[-1] <= 4096 else [8 * values.numel(), keys]


def _unique(args: Any, outputs: Any) -> list[int]:
    count, width = args[0].numel(), args[0].itemsize
    return [8 * count] * 3 + [(width + 8) * count + SORT_SPARE_BYTES]


def _index_put(args: Any, outputs: Any) -> list[int]:
    if len(args) < 4 or not args[3]:
        return []
    indices = [index for index in args[1] if index is not None]
    count = indices[0].numel() if indices else 0
    return [*[8 * count] * 5, 16 * count + SORT_SPARE_BYTES]


def _logsumexp(args: Any, outputs: Any) -> list[int]:
    return [args[0].numel() * args[0].itemsize]


LSTM, GRU = 2, 3
"""cuDNN's names of recurrent layers."""


def _recurrent_unit(args: Any) -> int:
    """Bytes of one hidden state a token, for every layer and direction."""
    tokens = args[0].numel() // args[0].shape[-1]
    return int(tokens * args[7] * args[0].itemsize)


def recurrent_reserve_bytes(args: Any) -> int:
    """What a recurrent layer keeps for its gradient; to the byte for LSTM and GRU."""
    if not args[12]:
        return 0
    unit, layers, directions = _recurrent_unit(args), int(args[9]), 2 if args[13] else 1
    states = {LSTM: 5, GRU: 6}.get(args[6], 2)
    return unit * directions * (states * layers + layers - 1) + 256


def _recurrent(args: Any, outputs: Any) -> list[int]:
    """Between 4 and 9 hidden states a token; the middle of what was measured."""
    return [_recurrent_unit(args) * args[9] * (2 if args[13] else 1) * {LSTM: 6, GRU: 5}.get(args[6], 2)]


RULES: dict[Any, Callable[..., list[int]]] = {
    aten.convolution.default: _convolution,
    aten._cudnn_rnn.default: _recurrent,
    aten.native_batch_norm.default: _batch_norm,
    aten.native_batch_norm_backward.default: _batch_norm_backward,
    aten._scaled_dot_product_cudnn_attention.default: _cudnn_attention,
    aten._scaled_dot_product_cudnn_attention_backward.default: _cudnn_attention_backward,
    aten._scaled_dot_product_flash_attention_backward.default: _flash_attention_backward,
    aten._scaled_dot_product_efficient_attention_backward.default: _efficient_attention_backward,
    aten.embedding_dense_backward.default: _embedding_backward,
    aten.sort.default: _sort,
    aten.sort.stable: _sort,
    aten._unique2.default: _unique,
    aten.index_put_.default: _index_put,
    aten.index_put.default: _index_put,
    aten._index_put_impl_.default: _index_put,
    aten.logsumexp.default: _logsumexp,
}
"""Operation → bytes of what it takes, all at one time, from its arguments and its results."""


def _power(number: int) -> int:
    return 1 << (max(number, 1).bit_length() - 1)
