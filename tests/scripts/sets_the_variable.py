"""Sets the allocator's variable itself, before it imports torch, as many scripts do."""

import os

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "max_split_size_mb:64"

import torch

torch.empty(1 << 20, device="cuda")
