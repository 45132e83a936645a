"""A model of 10 GB that is built on the CPU and then moved."""

import torch
from torch import nn

model = nn.Sequential(*[nn.Linear(8192, 8192, bias=False) for _ in range(40)]).to(torch.bfloat16).cuda()
for parameter in model[1:].parameters():
    parameter.requires_grad_(False)
optimizer = torch.optim.SGD(model[:1].parameters(), lr=0.1)
for _ in range(2):
    model(torch.randn(16, 8192, device="cuda", dtype=torch.bfloat16)).float().mean().backward()
    optimizer.step()
