"""Fails with an ordinary exception."""

import torch

torch.ones(2, 3) @ torch.ones(2, 3)
