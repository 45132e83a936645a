"""A DCGAN with two optimizers and a batch size that changes from step to step.

Two networks take turns, so their activations and gradients are alive at different times; a step is counted
once a round, when the first optimizer (the discriminator's) steps. Needs torch alone.

    python objectives/gan.py            # a GPU: 64 × 64 pixels, batches of 256 to 1,024
    python objectives/gan.py --smoke    # two CPU cores: 16 × 16 pixels, seconds
"""

import argparse
import random

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as adversarial_loss

NOISE = 128


def generator(widths: tuple[int, ...]) -> nn.Sequential:
    layers: list[nn.Module] = [nn.ConvTranspose2d(NOISE, widths[0], 4, 1, 0)]
    for inputs, outputs in zip(widths, (*widths[1:], 3), strict=True):
        layers += [nn.BatchNorm2d(inputs), nn.ReLU(), nn.ConvTranspose2d(inputs, outputs, 4, 2, 1)]
    return nn.Sequential(*layers, nn.Tanh())


def discriminator(widths: tuple[int, ...]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in zip((3, *widths), widths, strict=False):
        layers += [nn.Conv2d(inputs, outputs, 4, 2, 1), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 1))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="a size for two CPU cores")
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument(
        "--batch-size", type=int, default=None, help="a fixed batch size instead of a varying one"
    )
    options = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    widths, side, batches = (512, 256, 128, 64), 64, (256, 384, 512, 768, 1024)
    if options.smoke:
        widths, side, batches = (64, 32), 16, (16, 24, 32)

    sizes = random.Random(4)  # the data's own order, the same under every allocator setting
    forger, critic = generator(widths).to(device), discriminator(widths[::-1]).to(device)
    forger_optimizer = torch.optim.Adam(forger.parameters(), lr=2e-4, betas=(0.5, 0.999))
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
    for step in range(options.steps):
        batch = options.batch_size or sizes.choice(batches)
        real = torch.rand(batch, 3, side, side, device=device) * 2 - 1
        forged = forger(torch.randn(batch, NOISE, 1, 1, device=device))
        true, false = torch.ones(batch, 1, device=device), torch.zeros(batch, 1, device=device)

        critic_optimizer.zero_grad()
        critic_loss = adversarial_loss(critic(real), true) + adversarial_loss(critic(forged.detach()), false)
        critic_loss.backward()
        critic_optimizer.step()

        forger_optimizer.zero_grad()
        forger_loss = adversarial_loss(critic(forged), true)
        forger_loss.backward()
        forger_optimizer.step()
        if step % 20 == 19:
            print(
                f"step {step + 1}: critic {critic_loss.item():.3f}, forger {forger_loss.item():.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
