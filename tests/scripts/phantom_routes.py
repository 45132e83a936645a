"""Shapes that the model itself decides: only a GPU, or the CPU, can tell."""

import torch
from torch import nn

model = nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    hidden = model(torch.randn(32, 64).cuda())
    chosen = hidden[hidden[:, 0] > 0]
    (chosen.sum() + hidden.mean()).backward()
    optimizer.step()
