"""Accelerate with accumulation, mixed precision and a metric gathered over processes."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(mixed_precision="fp16", gradient_accumulation_steps=2)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 4))
optimizer = torch.optim.AdamW(model.parameters())
data = DataLoader(TensorDataset(torch.randn(64, 64), torch.randint(0, 4, (64,))), batch_size=8)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
correct = 0
for inputs, labels in data:
    assert inputs.is_cuda
    with accelerator.accumulate(model):
        output = model(inputs)
        accelerator.backward(nn.functional.cross_entropy(output, labels))
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    correct += accelerator.gather_for_metrics(output.argmax(-1) == labels).sum().item()
accelerator.print(f"accuracy {correct / 64:.2f}")
