"""Tensors that grow from step to step, so that cached ones cannot be used again; a late step takes most."""

import torch

weight = torch.nn.Parameter(torch.zeros(1 << 20, device="cuda"))
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(9):
    parts = [torch.empty((20 + 7 * step + part) << 20, dtype=torch.uint8, device="cuda") for part in range(4)]
    if step == 7:
        parts.append(torch.empty(300 << 20, dtype=torch.uint8, device="cuda"))
    weight.grad = torch.ones_like(weight)
    del parts
    optimizer.step()
for _ in range(12):
    weight.grad = torch.ones_like(weight)
    optimizer.step()
