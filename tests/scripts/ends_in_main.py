"""Infers, and ends with the usual idiom."""

import sys

import torch


def main():
    torch.nn.Linear(64, 64)(torch.randn(16, 64))
    return 0


if __name__ == "__main__":
    sys.exit(main())
