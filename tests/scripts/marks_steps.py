"""Has no optimizer and says where its steps end."""

import torch

import autotune

for size in range(1, 100):
    torch.ones(size * 1000)
    autotune.step()
