"""A residual CNN trained at a resolution that changes from batch to batch (multi-scale training).

Few very large activations of many different sizes, and convolution workspaces that come and go: the case in
which splitting large blocks hurts most. Needs torch alone.

    python objectives/cnn_multires.py            # a GPU: 25M parameters, 128 to 416 pixels, batch 32 to 64
    python objectives/cnn_multires.py --smoke    # two CPU cores: 0.2M parameters, seconds
"""

import argparse
import random

import torch
from torch import Tensor, nn


def convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Sequential:
    layer = nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs))


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            convolution(inputs, width, 1),
            nn.ReLU(),
            convolution(width, width, 3, stride),
            nn.ReLU(),
            convolution(width, 4 * width, 1),
        )
        same = stride == 1 and inputs == 4 * width
        self.shortcut = nn.Identity() if same else convolution(inputs, 4 * width, 1, stride)

    def forward(self, image: Tensor) -> Tensor:
        return torch.relu(self.body(image) + self.shortcut(image))


def residual_network(width: int, blocks: tuple[int, ...], classes: int) -> nn.Sequential:
    layers: list[nn.Module] = [convolution(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = width
    for stage, count in enumerate(blocks):
        for index in range(count):
            layers.append(Bottleneck(inputs, width << stage, stride=2 if stage and not index else 1))
            inputs = 4 * (width << stage)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="a size for two CPU cores")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument(
        "--batch-size", type=int, default=None, help="a fixed batch size instead of a varying one"
    )
    options = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    width, blocks, classes = 64, (3, 4, 6, 3), 1000
    resolutions, batches = range(128, 417, 32), (32, 48, 64)
    if options.smoke:
        width, blocks, classes = 16, (1, 1, 1), 10
        resolutions, batches = range(32, 97, 16), (4, 6, 8)

    shapes = random.Random(2)  # the data's own order, the same under every allocator setting
    model = residual_network(width, blocks, classes).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(options.steps):
        side, batch = shapes.choice(resolutions), options.batch_size or shapes.choice(batches)
        images = torch.randn(batch, 3, side, side, device=device).to(memory_format=torch.channels_last)
        labels = torch.randint(0, classes, (batch,), device=device)
        with torch.autocast(device, torch.bfloat16):
            loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 20 == 19:
            print(f"step {step + 1}: loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
