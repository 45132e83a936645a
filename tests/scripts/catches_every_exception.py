"""Catches whatever is raised, forever."""

import torch

layer = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
while True:
    try:
        layer(torch.randn(4, 8)).sum().backward()
        optimizer.step()
    except BaseException:
        pass
    finally:
        print("cleaning up", flush=True)
