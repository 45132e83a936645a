"""Calls sys.exit(0) before its loop."""

import sys

import torch

layer = torch.nn.Linear(8, 8)
if not sys.argv[1:]:
    sys.exit(0)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
optimizer.step()
