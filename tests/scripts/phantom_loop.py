"""A plain loop: data in workers, pinned memory, streams, questions about memory, logging, a checkpoint."""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CHECKPOINT = Path(sys.argv[1])


def main() -> None:
    assert torch.cuda.is_available() and torch.cuda.device_count() == 1
    print(torch.cuda.get_device_name(), torch.cuda.get_device_capability(), torch.cuda.mem_get_info()[1])
    device = torch.device("cuda")
    data = TensorDataset(torch.randn(512, 256), torch.randint(0, 10, (512,)))
    loader = DataLoader(data, batch_size=64, num_workers=2, pin_memory=True, shuffle=True)
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Dropout(), nn.Linear(1024, 10))
    early = torch.optim.SGD(model.parameters(), lr=0.1)  # made before the model moves
    model.to(device)
    assert all(parameter.is_cuda for group in early.param_groups for parameter in group["params"])
    optimizer = torch.optim.AdamW(model.parameters())
    side = torch.cuda.Stream()
    for images, labels in loader:
        assert images.is_pinned()
        images, labels = images.to(device, non_blocking=True), labels.cuda(non_blocking=True)
        with torch.cuda.stream(side):
            copy = images * 2
        torch.cuda.current_stream().wait_stream(side)
        copy.record_stream(torch.cuda.current_stream())
        loss = nn.functional.cross_entropy(model(copy), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        assert torch.isfinite(loss) and not torch.isnan(loss).any()
        print(f"loss {loss.item():.3f} {loss:.3f}", loss, copy.mean().tolist(), copy.cpu().numpy().shape)
        assert torch.cuda.max_memory_allocated() >= torch.cuda.memory_allocated() > 0
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, CHECKPOINT)
    print(torch.cuda.memory_summary())


if __name__ == "__main__":
    main()
