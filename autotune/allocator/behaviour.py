"""Behaviour: what settings make the allocator do on one trace, as a short key; equal keys need one trial.

Many settings act alike on a given program: a split size above its largest block, a rounding of sizes that
never occur. What a program can notice of its allocator is the driver's calls (they take the time) and the
memory held, so these make the key.
"""

from __future__ import annotations

import hashlib

from autotune.allocator.result import ReplayResult


def behaviour(result: ReplayResult) -> str:
    """16 hexadecimal digits; the same for two replays of a trace exactly if they do the same.

    The same: driver calls of equal kind and size at the same operations, equal peaks, retries and end.
    """
    calls = result.device_calls
    numbers = (
        str(result.outcome),
        result.failed_operation,
        result.num_alloc_retries,
        result.num_device_alloc,
        result.num_device_free,
        result.peak_requested_bytes,
        result.peak_allocated_bytes,
        result.peak_active_bytes,
        result.peak_reserved_bytes,
    )
    found = hashlib.blake2b(repr(numbers).encode(), digest_size=8)
    for column in (calls.operation, calls.kind, calls.size):
        found.update(column.tobytes())
    return found.hexdigest()
