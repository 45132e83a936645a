"""Buffers of reductions, against what an NVIDIA H200 was asked for (torch 2.11)."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from autotune.worker.phantom_reduction import Processors, reduction_bytes  # noqa: E402

H200 = Processors(132, 2048)


@pytest.mark.parametrize(
    ("shape", "dims", "element", "found"),
    [
        ((13920, 384), [0], 4, [42860544, 12]),
        ((13920, 1536), [0], 4, [138412032, 48]),
        ((13920, 1152), [0], 4, [128581632, 36]),
        ((4096, 1024), [0], 4, [33554432, 32]),
        ((32, 1_000_000), [1], 4, [2176, 128]),
        ((32, 1_000_000), [-1], 16, [8704, 128]),
        ((4_000_000,), None, 4, [1956, 4]),
        ((4_000_000,), None, 16, [7824, 4]),
        ((4096, 1024), None, 4, [2048, 4]),
        ((4096, 1024), [1], 4, []),
        ((256, 50257), [0], 4, []),
        ((1000,), None, 4, []),
        ((0, 8), [0], 4, []),
    ],
)
def test_the_buffer_and_the_semaphores_are_those_of_the_gpu(
    shape: tuple[int, ...], dims: list[int] | None, element: int, found: list[int]
) -> None:
    tensor = torch.empty(shape, device="meta")
    assert reduction_bytes(tensor, dims, H200, element) == found


def test_how_the_memory_lies_decides_not_how_it_is_called() -> None:
    tensor = torch.empty((32, 1_000_000), device="meta")
    assert reduction_bytes(tensor.t(), [0], H200, 4) == reduction_bytes(tensor, [1], H200, 4) == [2176, 128]


def test_fewer_processors_spread_less() -> None:
    tensor = torch.empty((13920, 1536), device="meta")
    small = reduction_bytes(tensor, [0], Processors(40, 1024), 4)
    assert small[0] < 138412032 and small[1] == 48
