"""Shapes that the script's own data decides: padding masks, unique labels, lengths."""

import torch
from torch import nn

lengths = torch.tensor([3, 9, 5, 7])
embedding = nn.Embedding(100, 64).cuda()
recurrent = nn.GRU(64, 32, batch_first=True).cuda()
optimizer = torch.optim.SGD([*embedding.parameters(), *recurrent.parameters()], lr=0.1)
for _ in range(3):
    mask = (torch.arange(int(lengths.max()))[None] < lengths[:, None]).cuda()
    tokens = torch.randint(0, 100, mask.shape, device="cuda")
    hidden = embedding(tokens)
    kept = hidden[mask]
    assert kept.shape == (24, 64)
    rows, columns = mask.nonzero(as_tuple=True)
    assert len(rows) == len(columns) == 24 == int(mask.sum())
    labels = torch.tensor([1, 5, 5, 1, 9]).cuda()
    assert len(labels.unique()) == 3
    packed = nn.utils.rnn.pack_padded_sequence(hidden, lengths, batch_first=True, enforce_sorted=False)
    output, _ = recurrent(packed)
    (kept.mean() + output.data.mean()).backward()
    optimizer.step()
    optimizer.zero_grad()
