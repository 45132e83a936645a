"""Workspaces of cuDNN's convolutions: what an H200 was asked for in 1,170 cases (torch 2.11, cuDNN 9.19).

The fast kernels want channels last, and 16-bit channels in eights. A convolution whose tensors lie otherwise
is given copies of them that do: input, weight and output together. Of 780 convolutions and gradients of
inputs this tells 87 % to within 1 KiB, and 5 % more to within a tenth of the tensors. The gradient of the
weight is summed in several parts of 32-bit numbers, whose number is a guess: of 390 cases 32 % are right to
within 1 KiB and 64 % to within a tenth of the tensors. Depthwise and grouped convolutions are taken to need
nothing. With `torch.backends.cudnn.benchmark` cuDNN tries algorithms that take more, for a moment; that is
not modelled.
"""

from __future__ import annotations

from typing import Any

import torch

POINTWISE_GRADIENT_BYTES, GRADIENT_BYTES = {2: 5_400_000, 4: 8_700_000}, {2: 2_359_296, 4: 8_388_608}
"""Up to about so many bytes of parts, by the size of an element."""
MOST_PARTS = 14
PATCH_PARTS = {2: 4, 4: 7}
SMALL_IMAGE = 13
"""Images of up to so many pixels a side are copied for pointwise convolutions too."""


def convolution_bytes(
    image: torch.Tensor, weight: torch.Tensor, result: torch.Tensor, stride: Any, groups: int
) -> list[int]:
    """Workspace of a convolution, or of its gradient for the input: the same."""
    if groups > 1:
        return []
    if is_channels_last(image):
        return [_copied(image) + _copied(weight)] if _odd(image) else []
    if is_pointwise(weight):
        return [_bytes(image) + _bytes(result)] if _small_image(image, stride) else []
    if _cuts_patches(image, weight, stride):
        return []
    if _has_few_channels(image, weight):
        return []
    return [_copied(image) + _copied(weight) + _copied(result)]


def weight_gradient_bytes(
    image: torch.Tensor, weight: torch.Tensor, result: torch.Tensor, stride: Any, groups: int
) -> list[int]:
    """Workspace of a convolution's gradient for the weight."""
    if groups > 1:
        return []
    part = _padded(weight) * 4
    if is_pointwise(weight):
        if not is_channels_last(image) and _small_image(image, stride):
            return [_bytes(image) + _bytes(result)]
        return [POINTWISE_GRADIENT_BYTES[_width(image)] // part * part]
    if _cuts_patches(image, weight, stride):
        return [_copied(image) + _copied(result) + PATCH_PARTS[_width(image)] * part]
    if _has_few_channels(image, weight):
        return []
    copies = sum(convolution_bytes(image, weight, result, stride, groups))
    parts = 0 if part >= GRADIENT_BYTES[_width(image)] else GRADIENT_BYTES[_width(image)] // part
    return [copies + min(parts, MOST_PARTS) * part]


def _cuts_patches(image: torch.Tensor, weight: torch.Tensor, stride: Any) -> bool:
    """Whether an image of few colours is cut into patches that do not overlap."""
    return tuple(weight.shape[2:]) == tuple(stride) and image.shape[1] <= 4


def _has_few_channels(image: torch.Tensor, weight: torch.Tensor) -> bool:
    """32-bit images of few colours, or the making of such, have kernels of their own up to 4 × 4 pixels."""
    fewest = min(image.shape[1], *weight.shape[:2])
    return _width(image) == 4 and fewest <= 4 and max(weight.shape[2:]) <= 4


def is_channels_last(tensor: torch.Tensor) -> bool:
    """Whether a pixel's channels lie together."""
    return tensor.dim() > 3 and tensor.stride(1) == 1 and tensor.shape[1] > 1


def is_pointwise(weight: torch.Tensor) -> bool:
    """Whether the kernel is one pixel."""
    return all(size == 1 for size in weight.shape[2:])


def _small_image(image: torch.Tensor, stride: Any) -> bool:
    return any(step > 1 for step in stride) or max(image.shape[2:]) <= SMALL_IMAGE


def _odd(tensor: torch.Tensor) -> bool:
    return tensor.shape[1] % _alignment(tensor) != 0


def _alignment(tensor: torch.Tensor) -> int:
    return 8 if _width(tensor) == 2 else 4


def _width(tensor: torch.Tensor) -> int:
    return 2 if tensor.itemsize <= 2 else 4


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.itemsize


def _padded(tensor: torch.Tensor) -> int:
    """Elements with the channels padded; 32-bit ones are not."""
    channels = tensor.shape[1]
    by = 8 if _width(tensor) == 2 else 1
    return tensor.numel() // max(channels, 1) * (-(-channels // by) * by)


def _copied(tensor: torch.Tensor) -> int:
    return _padded(tensor) * tensor.itemsize
