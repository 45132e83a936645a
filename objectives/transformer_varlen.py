"""A decoder-only transformer trained on batches of varying sequence length.

Every batch is padded to its own longest sequence, so activation sizes change from step to step: the usual
cause of cached blocks that fit nothing any more. Needs torch alone.

    python objectives/transformer_varlen.py            # a GPU: 124M parameters, batch 16, up to 1,024 tokens
    python objectives/transformer_varlen.py --smoke    # two CPU cores: 0.2M parameters, seconds
"""

import argparse
import random

import torch
from torch import Tensor, nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention, self.norm_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, hidden: Tensor) -> Tensor:
        batch, length, width = hidden.shape
        shape = (batch, length, self.heads, width // self.heads)
        query, key, value = (
            part.view(shape).transpose(1, 2)
            for part in self.qkv(self.norm_attention(hidden)).chunk(3, dim=-1)
        )
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.project(attended.transpose(1, 2).reshape(batch, length, width))
        return hidden + self.mlp(self.norm_mlp(hidden))


class Decoder(nn.Module):
    def __init__(self, vocabulary: int, width: int, layers: int, heads: int, longest: int) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(longest, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.token(tokens) + self.position(positions))))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="a size for two CPU cores")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=None)
    options = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    vocabulary, width, layers, heads, longest, batch = 50257, 768, 12, 12, 1024, 16
    if options.smoke:
        vocabulary, width, layers, heads, longest, batch = 1024, 64, 2, 4, 192, 8
    batch = options.batch_size or batch

    lengths = random.Random(0)  # the data's own order, the same under every allocator setting
    model = Decoder(vocabulary, width, layers, heads, longest).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(options.steps):
        length = max(longest // 32, min(longest, int(longest * lengths.lognormvariate(-1.4, 0.6))))
        tokens = torch.randint(0, vocabulary, (batch, length + 1), device=device)
        with torch.autocast(device, torch.bfloat16):
            logits = model(tokens[:, :-1])
            loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 20 == 19:
            print(f"step {step + 1}: loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
