"""Memory that a reduction takes when it spreads one output over several thread blocks.

The rule is PyTorch's own, aten/src/ATen/native/cuda/Reduce.cuh (`setReduceConfig`, `global_memory_size`,
`semaphore_size`), for one kernel launch. It gave the bytes that an NVIDIA H200 was asked for, to the byte, in
every reduction compared (sums over rows, columns and all; torch 2.11).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

MAX_THREADS, WARP, VECTOR = 512, 32, 4
MIN_VALUES, MAX_VALUES = 16, 256
"""Values that a thread shall sum."""
INDEX_AND_VALUE_BYTES = 16


class Processors(NamedTuple):
    """What of a GPU decides how reductions are spread."""

    number: int
    """Streaming multiprocessors."""
    threads: int
    """Threads that each can hold."""


class _Axis(NamedTuple):
    size: int
    stride: int


def reduction_bytes(tensor: torch.Tensor, dims: Any, processors: Processors, element: int) -> list[int]:
    """Bytes of the buffer and of the semaphores; empty where one block does an output alone.

    Args:
        tensor: what is reduced.
        dims: over which dimensions; None or none = all.
        processors: of the GPU.
        element: bytes of an intermediate result.
    """
    count = tensor.dim()
    reduced = {dim % count for dim in dims} if count and dims not in (None, []) else set(range(count))
    axes = [_Axis(size, stride) for size, stride in zip(tensor.shape, tensor.stride())]  # noqa: B905
    over = _merged([axis for dim, axis in enumerate(axes) if dim in reduced])
    kept = _merged([axis for dim, axis in enumerate(axes) if dim not in reduced])
    inputs, outputs = _product(over), _product(kept)
    if not over or inputs * outputs == 0:
        return []
    fastest_reduced = not kept or over[0].stride < kept[0].stride
    vector = 1
    if fastest_reduced:
        width, height = inputs, outputs
        if over[0].stride == 1 and width > 128 and len(over) + len(kept) == 1:
            width //= VECTOR
    else:
        width, height = outputs, inputs
        if kept[0].stride == 1:
            vector = _output_vector(kept, over)
            width //= vector
    return _spread(inputs, outputs, width, height, vector, fastest_reduced, processors, element)


def _spread(
    inputs: int,
    outputs: int,
    width: int,
    height: int,
    vector: int,
    fastest_reduced: bool,
    processors: Processors,
    element: int,
) -> list[int]:
    most = MAX_THREADS // vector
    wide, high = min(_power(width), most), min(_power(height), most)
    block_width = min(wide, WARP)
    block_height = min(high, most // block_width)
    block_width = min(wide, most // block_height)
    step_input, step_output = (block_width, 1) if fastest_reduced else (1, block_width)
    if _up(inputs, step_input) < min(block_height * MIN_VALUES, MAX_VALUES):
        return []  # warps do outputs of their own, and so does each block
    step_input *= block_height
    values = _up(inputs, step_input)
    grid = _up(outputs // vector, step_output)
    target = processors.number * (processors.threads // (block_width * block_height))
    if values < MAX_VALUES or grid > target:
        return []
    blocks = max(min(_up(target, grid), _up(values, MIN_VALUES)), _up(values, MAX_VALUES))
    if blocks <= 1:
        return []
    buffer = element * outputs * blocks
    if not fastest_reduced:
        buffer *= block_width * vector
    return [buffer, 4 * grid]


def _output_vector(kept: list[_Axis], over: list[_Axis]) -> int:
    """Outputs that a thread handles at once: up to four, if everything is a multiple of that."""
    vector = VECTOR
    for number in (kept[0].size, *(axis.stride for axis in (*over, *kept[1:]))):
        while number % vector:
            vector //= 2
    return vector


def _merged(axes: list[_Axis]) -> list[_Axis]:
    """The axes from the smallest stride on; neighbours that are one piece of memory are one axis."""
    found: list[_Axis] = []
    for axis in sorted((axis for axis in axes if axis.size != 1), key=lambda axis: axis.stride):
        if found and found[-1].stride * found[-1].size == axis.stride:
            found[-1] = _Axis(found[-1].size * axis.size, found[-1].stride)
        else:
            found.append(axis)
    return found


def _product(axes: list[_Axis]) -> int:
    result = 1
    for axis in axes:
        result *= axis.size
    return result


def _power(number: int) -> int:
    return 1 << (max(number, 1).bit_length() - 1)


def _up(number: int, by: int) -> int:
    return -(-number // by)
