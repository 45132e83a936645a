"""Memory of GPUs by name, as torch reports it; it is less than the number on the box."""

from __future__ import annotations

import re

from autotune.allocator.result import H200_TOTAL_BYTES
from autotune.errors import UsageError
from autotune.units import parse_size

TOTAL_BYTES = {"NVIDIA H200": H200_TOTAL_BYTES}
"""Only what was measured; `torch.cuda.get_device_properties(0).total_memory` tells any other."""


def device_total(text: str) -> int:
    """Bytes of a GPU given by name (`H200`, `nvidia h200`) or as a size (`80GiB`).

    Raises:
        UsageError: neither a known GPU nor a size.
    """
    wanted = _plain(text)
    for name, total in TOTAL_BYTES.items():
        if wanted in (_plain(name), _plain(name.removeprefix("NVIDIA "))):
            return total
    try:
        return parse_size(text)
    except UsageError:
        known = ", ".join(TOTAL_BYTES)
        raise UsageError(
            f"'{text}' is neither a size such as 80GiB nor a GPU known by name ({known}); give what "
            "torch.cuda.get_device_properties(0).total_memory says."
        ) from None


def _plain(text: str) -> str:
    return re.sub(r"[\s_-]", "", text).lower()
