"""Names "cuda" everywhere, as most scripts do; without a GPU it runs redirected."""

import torch

torch.manual_seed(1)
layer = torch.nn.Linear(1024, 512).cuda()
optimizer = torch.optim.Adam(layer.parameters())
for step in range(100):
    inputs = torch.randn(32 + step, 1024, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        loss = layer(inputs).float().square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
