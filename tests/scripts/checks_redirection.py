"""Uses a GPU in every way that scripts do, and checks that each works without one. Only asserts."""

import copy

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def kind(tensor):
    return tensor.device.type


host = torch.ones(4)
assert kind(host) == "cpu"
made = {
    "cuda()": host.cuda(),
    "to name": host.to("cuda"),
    "to index": host.to(0),
    "to device and type": host.to(torch.device("cuda:0"), torch.bfloat16),
    "to keywords": host.to(device="cuda", dtype=torch.float16, non_blocking=True),
    "to like": host.to(torch.zeros(1, device="cuda")),
    "tensor": torch.tensor([1.0, 2.0], device="cuda"),
    "as_tensor of data": torch.as_tensor([1, 2], device="cuda"),
    "as_tensor of a tensor": torch.as_tensor(host, device="cuda"),
    "factory": torch.randn(2, 2, device="cuda", generator=torch.Generator(device="cuda")),
    "like": torch.zeros_like(host, device="cuda"),
    "new": host.new_tensor([1, 2], device="cuda"),
    "pinned": torch.rand(3).pin_memory().to("cuda", non_blocking=True),
    "computed": host.cuda() + 1,
    "same device": torch.ones(3, device=host.cuda().device),
}
assert {name: kind(tensor) for name, tensor in made.items()} == dict.fromkeys(made, "cuda")

device = host.cuda()
assert device.to("cuda") is device and device.cuda() is device
assert kind(device.cpu()) == "cpu" and device.cpu().data_ptr() != device.data_ptr()
assert "cuda:0" in repr(device) and device.tolist() == [1.0] * 4 and device.sum().item() == 4.0
assert not device.is_cuda and not torch.cuda.is_available()

with torch.device("cuda"):
    assert [kind(t) for t in (torch.ones(2), torch.tensor([1.0]), nn.Linear(3, 3).weight)] == ["cuda"] * 3

model = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3)).to("cuda")
assert {kind(p) for p in [*model.parameters(), *copy.deepcopy(model).parameters()]} == {"cuda"}

inputs = torch.ones(2, 3, device="cuda", requires_grad=True)
with torch.autocast("cuda", torch.float16):
    assert model[0](inputs).dtype == torch.bfloat16
for use_reentrant in (True, False):
    checkpoint(model, inputs, use_reentrant=use_reentrant).sum().backward()
torch.compile(model)(inputs)

packed = nn.utils.rnn.pack_padded_sequence(torch.randn(2, 4, 3, device="cuda"), torch.tensor([4, 2]), True)
nn.LSTM(3, 5, batch_first=True).cuda()(packed)

stream, event = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)
with torch.cuda.stream(stream):
    (device * 2).record_stream(stream)
event.record()
torch.cuda.current_stream().wait_stream(stream)
torch.cuda.synchronize()
assert torch.cuda.get_device_properties(0).total_memory == torch.cuda.mem_get_info()[0] == 16 << 30
torch.cuda.reset_peak_memory_stats()
assert torch.cuda.max_memory_allocated() == 0

scaler, optimizer = torch.amp.GradScaler("cuda"), torch.optim.AdamW(model.parameters())
scaler.scale(model(inputs).sum()).backward()
scaler.unscale_(optimizer)
nn.utils.clip_grad_norm_(model.parameters(), 1.0)
scaler.step(optimizer)
scaler.update()
print("all is well")
