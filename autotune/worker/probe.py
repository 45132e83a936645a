"""Facts about the interpreter that runs scripts: its torch, and the GPU as that torch sees it; as JSON."""

from __future__ import annotations

import json
import os
import platform
import sys
from typing import Any

from .processes import die_with_parent


def main(arguments: list[str]) -> None:
    """Print the facts. This process initialises CUDA, which is why no other does it."""
    die_with_parent(os.getppid())
    facts: dict[str, Any] = {"python_version": platform.python_version(), "torch": None, "usable": False}
    try:
        import torch
    except ImportError as error:
        facts["why_not"] = f"torch cannot be imported ({error})"
    except Exception as error:
        facts["why_not"] = f"importing torch fails with {type(error).__name__}: {error}"
    else:
        facts.update(torch=torch.__version__, cuda_build=torch.version.cuda or torch.version.hip)
        facts.update(_gpu(torch))
    print(json.dumps(facts))
    sys.stdout.flush()


def _gpu(torch: Any) -> dict[str, Any]:
    if not (torch.version.cuda or torch.version.hip):
        return {"why_not": f"torch {torch.__version__} is built without CUDA"}
    try:
        torch.cuda.init()
        if torch.cuda.device_count() == 0:
            return {"why_not": "no GPU is visible"}
        ones = torch.ones(2, device="cuda") + 1  # a kernel really runs
        if ones.sum().item() != 4:
            return {"why_not": "the GPU computes wrong sums"}
        properties = torch.cuda.get_device_properties(0)
    except Exception as error:
        return {"why_not": " ".join(str(error).split(". ")[0].split())}
    return {
        "usable": True,
        "why_not": None,
        "gpu": properties.name,
        "uuid": str(getattr(properties, "uuid", "")) or None,
        "device_total_bytes": properties.total_memory,
        "backend": torch.cuda.get_allocator_backend(),
    }
