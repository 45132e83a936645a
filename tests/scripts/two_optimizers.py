"""Alternates two optimizers, as a GAN does: ten iterations are ten steps."""

import torch

layers = [torch.nn.Linear(8, 8) for _ in range(2)]
optimizers = [torch.optim.SGD(layer.parameters(), lr=0.1) for layer in layers]
for _ in range(10):
    for layer, optimizer in zip(layers, optimizers, strict=True):
        layer(torch.randn(4, 8)).sum().backward()
        optimizer.step()
