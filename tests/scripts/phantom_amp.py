"""Mixed precision with a GradScaler, both kinds of checkpointing, a compiled model, a copy, tied weights."""

import copy

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.body = nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128))

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + checkpoint(self.body, hidden, use_reentrant=self.reentrant)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(1000, 128)
        self.blocks = nn.Sequential(Block(True), Block(False))
        self.head = nn.Linear(128, 1000, bias=False)
        self.head.weight = self.token.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.blocks(self.token(tokens)))


model = Model().cuda()
assert model.head.weight is model.token.weight
average = copy.deepcopy(model)
compiled = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters())
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
scaler = torch.amp.GradScaler("cuda")
steps = 0
optimizer.register_step_post_hook(lambda *_: globals().update(steps=steps + 1))
for _ in range(4):
    tokens = torch.randint(0, 1000, (8, 64), device="cuda")
    with torch.autocast("cuda", torch.float16):
        loss = nn.functional.cross_entropy(compiled(tokens).flatten(0, 1), tokens.flatten())
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()
    optimizer.zero_grad(set_to_none=True)
    with torch.no_grad():
        for one, other in zip(average.parameters(), model.parameters(), strict=True):
            one.lerp_(other, 0.1)
assert steps == 4, steps
