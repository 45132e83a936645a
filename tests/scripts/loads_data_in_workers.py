"""Reads its batches from DataLoader workers."""

import torch
from torch.utils.data import DataLoader, TensorDataset

dataset = TensorDataset(torch.randn(256, 8))
layer = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for (batch,) in DataLoader(dataset, batch_size=4, num_workers=2):
    layer(batch).sum().backward()
    optimizer.step()
