"""autotune: finds, by measurement, the PyTorch CUDA allocator settings that suit one script on one GPU."""

from __future__ import annotations

__version__ = "0.1.0"


def step() -> None:
    """Mark the end of one step in a script without an optimizer. Does nothing outside an autotune worker."""
