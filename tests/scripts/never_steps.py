"""Infers, without an optimizer and without autotune.step()."""

import torch

layer = torch.nn.Linear(64, 64)
with torch.inference_mode():
    for _ in range(3):
        layer(torch.randn(16, 64))
