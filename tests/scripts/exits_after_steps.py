"""Calls sys.exit(0) after four steps."""

import sys

import torch

layer = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for step in range(100):
    layer(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    if step == 3:
        sys.exit(0)
