"""GPUs by name: memory as torch reports it, less than the number on the box, and what they can do."""

from __future__ import annotations

import re
from dataclasses import dataclass

from autotune.allocator.result import H200_TOTAL_BYTES
from autotune.errors import UsageError
from autotune.units import MIB, format_bytes, parse_size

HOPPER = (9, 0)


@dataclass(frozen=True, kw_only=True)
class Card:
    """A kind of GPU."""

    name: str
    """As `torch.cuda.get_device_name()` says it."""
    total_bytes: int
    """As `torch.cuda.get_device_properties(0).total_memory` says it."""
    capability: tuple[int, int] = HOPPER
    num_processors: int = 132
    """Streaming multiprocessors."""


def _card(name: str, total_mib: int, capability: tuple[int, int], num_processors: int) -> Card:
    return Card(name=name, total_bytes=total_mib * MIB, capability=capability, num_processors=num_processors)


CARDS = (
    Card(name="NVIDIA H200", total_bytes=H200_TOTAL_BYTES),
    _card("NVIDIA B200", 182_642, (10, 0), 148),
    _card("NVIDIA H100 80GB HBM3", 81_090, HOPPER, 132),
    _card("NVIDIA A100-SXM4-80GB", 81_153, (8, 0), 108),
    _card("NVIDIA A100-SXM4-40GB", 40_337, (8, 0), 108),
    _card("NVIDIA L40S", 45_488, (8, 9), 142),
    _card("NVIDIA RTX A6000", 48_676, (8, 6), 84),
    _card("NVIDIA A10G", 22_502, (8, 6), 80),
    _card("NVIDIA L4", 22_563, (8, 9), 58),
    _card("NVIDIA GeForce RTX 5090", 32_109, (12, 0), 170),
    _card("NVIDIA GeForce RTX 4090", 24_209, (8, 9), 128),
    _card("NVIDIA GeForce RTX 3090", 24_253, (8, 6), 82),
    _card("Tesla V100-SXM2-32GB", 32_501, (7, 0), 80),
    _card("Tesla V100-SXM2-16GB", 16_152, (7, 0), 80),
    _card("Tesla T4", 14_914, (7, 5), 40),
)
"""The H200's memory was measured; the others' is what torch commonly prints, give or take 1 %.

`torch.cuda.get_device_properties(0).total_memory` tells for the card at hand; any size can be given instead.
"""
SHORT_NAMES = {
    "H100": "NVIDIA H100 80GB HBM3",
    "A100": "NVIDIA A100-SXM4-80GB",
    "V100": "Tesla V100-SXM2-32GB",
}
"""For what people call a card that comes in more than one size."""


def card(text: str) -> Card:
    """The GPU of a name (`H200`, `A100-40GB`, `rtx 4090`) or a size (`24GiB`, taken for one like an H200).

    Raises:
        UsageError: neither a known GPU nor a size.
    """
    wanted = _plain(next((SHORT_NAMES[name] for name in SHORT_NAMES if _plain(text) == _plain(name)), text))
    for known in CARDS:
        if wanted in _names(known.name):
            return known
    try:
        total = parse_size(text)
    except UsageError:
        names = ", ".join(known.name for known in CARDS)
        raise UsageError(
            f"'{text}' is neither a size such as 80GiB nor a GPU known by name ({names}); give what "
            "torch.cuda.get_device_properties(0).total_memory says."
        ) from None
    return Card(name=f"GPU of {format_bytes(total)}", total_bytes=total)


def device_total(text: str) -> int:
    """Bytes of a GPU given by name or as a size; see `card`."""
    return card(text).total_bytes


def _names(name: str) -> set[str]:
    """A card's name in full, and with the maker's words and the socket left out."""
    short = re.sub(r"^(NVIDIA|Tesla)\s+", "", name)
    shorter = re.sub(r"^GeForce\s+", "", re.sub(r"-SXM\d|\s+HBM\d", "", short))
    return {_plain(name), _plain(short), _plain(shorter), _plain(shorter.removeprefix("RTX "))}


def _plain(text: str) -> str:
    return re.sub(r"[\s_-]", "", text).lower()
