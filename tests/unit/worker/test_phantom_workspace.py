"""Workspaces, against what an NVIDIA H200 was asked for (torch 2.11, cuDNN 9.19)."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
if not hasattr(torch._C, "_cuda_cudaCachingAllocator_raw_alloc"):
    pytest.skip("needs a CUDA build of torch", allow_module_level=True)

from autotune.worker.phantom_convolution import (  # noqa: E402
    convolution_bytes,
    weight_gradient_bytes,
)
from autotune.worker.phantom_workspace import (  # noqa: E402
    RULES,
    cublas_workspace_bytes,
    recurrent_reserve_bytes,
)

aten = torch.ops.aten


def meta(*shape: int, dtype: Any = torch.float32, last: bool = False) -> Any:
    tensor = torch.empty(shape, dtype=dtype, device="meta")
    return tensor.to(memory_format=torch.channels_last) if last else tensor


@pytest.mark.parametrize(
    ("dtype", "last", "image", "weight", "stride", "found"),
    [
        ("float32", False, (32, 128, 28, 28), (128, 128, 3, 3), 1, 26279952),
        ("bfloat16", False, (32, 3, 224, 224), (64, 3, 7, 7), 2, 77120528),
        ("bfloat16", True, (32, 3, 224, 224), (64, 3, 7, 7), 2, 25740304),
        ("bfloat16", True, (32, 4, 64, 64), (320, 4, 3, 3), 1, 2143248),
        ("bfloat16", True, (32, 128, 28, 28), (128, 128, 3, 3), 1, 0),
        ("float32", False, (32, 2048, 7, 7), (512, 2048, 1, 1), 1, 16056336),
        ("bfloat16", False, (32, 256, 56, 56), (64, 256, 1, 1), 1, 0),
        ("float32", False, (32, 96, 56, 56), (96, 1, 7, 7), 1, 0),
    ],
)
def test_a_convolution_takes_copies_of_what_does_not_lie_as_cudnn_wants_it(
    dtype: str, last: bool, image: tuple[int, ...], weight: tuple[int, ...], stride: int, found: int
) -> None:
    kind = getattr(torch, dtype)
    images, weights = meta(*image, dtype=kind, last=last), meta(*weight, dtype=kind, last=last)
    padding, groups = (weight[2] - 1) // 2, image[1] // weight[1]
    result = torch.nn.functional.conv2d(images, weights, None, stride, padding, 1, groups)
    sizes = convolution_bytes(images, weights, result, (stride, stride), groups)
    assert sum(sizes) == pytest.approx(found, abs=300)


@pytest.mark.parametrize(
    ("dtype", "channels", "pixels", "kernel", "found"),
    [
        ("float32", 128, 28, 3, 34538151),
        ("float32", 256, 14, 3, 22282847),
        ("bfloat16", 128, 28, 3, 15499655),
        ("bfloat16", 256, 14, 3, 7602192),
    ],
)
def test_the_gradient_of_a_weight_is_summed_in_parts(
    dtype: str, channels: int, pixels: int, kernel: int, found: int
) -> None:
    kind = getattr(torch, dtype)
    image = meta(32, channels, pixels, pixels, dtype=kind)
    weight = meta(channels, channels, kernel, kernel, dtype=kind)
    assert sum(weight_gradient_bytes(image, weight, image, (1, 1), 1)) == pytest.approx(found, rel=0.01)


def attention(batch: int, heads: int, length: int, width: int, shared: int) -> list[Any]:
    query = meta(batch, length, heads, width, dtype=torch.bfloat16).transpose(1, 2)
    key = meta(batch, length, shared, width, dtype=torch.bfloat16).transpose(1, 2)
    return [query, query, key, key, query]


@pytest.mark.parametrize(
    ("operation", "shape", "found"),
    [
        ("cudnn", (4, 16, 300, 64, 16), 4992256),
        ("cudnn", (2, 8, 1000, 80, 8), 5184256),
        ("cudnn", (4, 32, 512, 128, 8), 67371264),
        ("flash", (4, 16, 300, 64, 16), 98304 + 6291456),
        ("flash", (2, 8, 1000, 80, 8), 65536 + 6291456),
        ("flash", (4, 32, 512, 128, 8), 262144 + 33554432 + 2 * 16777216),
    ],
)
def test_attentions_gradient_is_summed_in_32_bits(operation: str, shape: tuple[int, ...], found: int) -> None:
    func = getattr(aten, f"_scaled_dot_product_{operation}_attention_backward").default
    assert sum(RULES[func](attention(*shape), [])) == found


@pytest.mark.parametrize(
    ("mode", "arguments", "found"),
    [
        (2, (32, 100, 256, 512, 1, False), 32768256),
        (2, (32, 100, 256, 512, 2, True), 144179456),
        (3, (16, 200, 512, 1024, 3, False), 262144256),
    ],
)
def test_recurrent_layers_keep_what_their_gradient_needs(
    mode: int, arguments: tuple[Any, ...], found: int
) -> None:
    batch, length, inputs, hidden, layers, both_ways = arguments
    source = meta(batch, length, inputs)
    call = (source, [], 4, None, None, None, mode, hidden, 0, layers, True, 0.0, True, both_ways, [], None)
    assert recurrent_reserve_bytes(call) == found


@pytest.mark.parametrize(
    ("configured", "capability", "found"),
    [
        (None, (9, 0), 32 << 20),
        (None, (8, 0), 8_519_680),
        (":4096:2:16:8", (9, 0), 8_519_680),
        (":16:8", (8, 0), 131_072),
        ("nonsense", (8, 0), 8_519_680),
    ],
)
def test_cublas_takes_what_the_environment_or_the_architecture_says(
    configured: str | None, capability: tuple[int, int], found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    if configured is not None:
        monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", configured)
    assert cublas_workspace_bytes(capability) == found
