"""Trains a small layer; the first argument is the number of steps (default 100)."""

import sys

import torch

layer = torch.nn.Linear(64, 64)
optimizer = torch.optim.Adam(layer.parameters())
for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 100):
    layer(torch.randn(16, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print("the script's own end")
