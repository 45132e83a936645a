"""Allocates on a GPU without computing anything; arguments: steps, MiB of the largest block."""

import sys

import torch

import autotune

steps, largest = int(sys.argv[1]), int(sys.argv[2])
kept = []
for step in range(steps):
    sizes = [(1 + (7 * step + 3 * index) % largest) << 20 for index in range(8)]
    blocks = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in sizes]
    kept.append(torch.empty(3_000_000, dtype=torch.uint8, device="cuda"))
    # Scripts that log their peaks a step do this; what autotune reports must not suffer.
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    del blocks
    autotune.step()
