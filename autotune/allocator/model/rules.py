"""Rules: one configuration of the allocator as numbers, the differences between releases decided."""

from __future__ import annotations

from typing import NamedTuple

from autotune.settings import DEFAULT_LARGE_SEGMENT_MB, AllocatorSettings, TorchVersion
from autotune.units import MIB

# The allocator's compile-time constants, the same in torch 2.4 … 2.15 (names as in CUDACachingAllocator.cpp).
MIN_BLOCK_SIZE = 512
SMALL_SIZE = 1 * MIB
"""Requests of at most this much, after rounding, are served from the small pool."""
SMALL_BUFFER = 2 * MIB
MIN_LARGE_ALLOC = 10 * MIB
ROUND_LARGE = 2 * MIB
DRIVER_GRANULARITY = 2 * MIB
"""The driver hands out device memory in multiples of this."""

UNLIMITED = 1 << 62


class Rules(NamedTuple):
    """What the compiled code needs to know of settings, limits and release; the heap begins with it."""

    expandable: bool
    max_split_size: int
    """UNLIMITED where the option is not set."""
    max_non_split_rounding: int
    large_segment: int
    rounds_up: bool
    allowed: int
    """Bytes this process may reserve; UNLIMITED where no fraction is set."""
    collects: bool
    """Whether garbage collection is armed."""
    collect_above: int
    """Reserved bytes above which it collects."""
    device_total: int
    address_space: int
    """Bytes of addresses reserved for one expandable segment."""
    newest_first: bool
    """Whether a newer segment's free blocks go before an older one's of equal size."""
    by_serial: bool
    """Torch 2.12 compares the order in which the blocks came into being."""
    reject_above: int
    """Reserved bytes that `throw_on_cudamalloc_oom` refuses to exceed; UNLIMITED where it is off."""
    private_retry: bool
    """Whether an allocation in a private pool may release what the default pool has cached: up to torch 2.12
    every use of a private pool counts as a graph capture, during which nothing is released."""


def make_rules(
    settings: AllocatorSettings, *, memory_limit: int | None, device_total: int, torch_version: TorchVersion
) -> Rules:
    """The rules of one replay. Arguments as in `Engine.replay`."""
    allowed = _allowed(settings, memory_limit, device_total, torch_version)
    threshold = settings.garbage_collection_threshold or 0.0
    large_segment = (settings.large_segment_size_mb or DEFAULT_LARGE_SEGMENT_MB) * MIB
    non_split = settings.max_non_split_rounding_mb
    split = settings.max_split_size_mb
    return Rules(
        expandable=bool(settings.expandable_segments),
        max_split_size=UNLIMITED if split is None else split * MIB,
        max_non_split_rounding=large_segment if non_split is None else non_split * MIB,
        large_segment=large_segment,
        rounds_up=any(settings.roundup_divisions(torch_version)),
        allowed=UNLIMITED if allowed is None else allowed,
        # Without a memory fraction PyTorch never collects (PyTorch issue #106660).
        collects=threshold > 0 and allowed is not None,
        collect_above=int(threshold * allowed) if allowed is not None else UNLIMITED,
        device_total=device_total,
        # Nine eighths of the device, so that pages freed in front can be mapped again behind.
        address_space=device_total + device_total // 8,
        newest_first=torch_version <= (2, 11) and not settings.expandable_segments,
        by_serial=torch_version == (2, 12),
        reject_above=_reject_above(settings, device_total),
        private_retry=torch_version >= (2, 13),
    )


def _allowed(
    settings: AllocatorSettings, memory_limit: int | None, device_total: int, torch_version: TorchVersion
) -> int | None:
    """Bytes that may be reserved, or None where the release regards the process as unlimited.

    `set_per_process_memory_fraction`, which is called later, wins over the option. From torch 2.10 on a
    fraction of 1 counts as none; before, it arms garbage collection.
    """
    if memory_limit is None and settings.per_process_memory_fraction is not None:
        memory_limit = int(settings.per_process_memory_fraction * device_total)
    if memory_limit is None or (memory_limit >= device_total and torch_version >= (2, 10)):
        return None
    return min(memory_limit, device_total)


def _reject_above(settings: AllocatorSettings, device_total: int) -> int:
    """The option compares with the fraction in the settings, whatever the process set later."""
    if dict(settings.passthrough).get("throw_on_cudamalloc_oom") != "True":
        return UNLIMITED
    fraction = settings.per_process_memory_fraction
    return int((1.0 if fraction is None else fraction) * device_total)
