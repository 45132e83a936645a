"""Trains a transformer layer on the GPU with varying lengths; prints the allocator's peaks at its end."""

import json

import torch
from torch import nn

lengths = [100, 700, 300, 900, 200, 500]
layer = nn.TransformerEncoderLayer(256, 4, batch_first=True).cuda()
optimizer = torch.optim.AdamW(layer.parameters())
for length in lengths:
    loss = layer(torch.randn(16, length, 256, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
stats = torch.cuda.memory_stats()
peaks = ("requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes")
shown = {f"peak_{name}": stats[f"{name}.all.peak"] for name in peaks}
print(json.dumps({**shown, **{name: stats[name] for name in ("num_device_alloc", "num_device_free")}}))
