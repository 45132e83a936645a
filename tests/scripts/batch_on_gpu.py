"""Allocates in proportion to its argument, a batch size, without computing anything: 100 MiB an element."""

import sys

import torch

import autotune

batch = int(sys.argv[1])
for step in range(6):
    sizes = [(batch * (60 + step)) << 20, (batch * (40 - step)) << 20]
    blocks = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in sizes]
    del blocks
    autotune.step()
