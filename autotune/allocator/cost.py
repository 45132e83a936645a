"""What driver calls cost: the only slow thing an allocator does, from a table measured on a GPU.

Measured on an NVIDIA H200 (143,771 MiB) with torch 2.11 and driver 580, the device idle, medians of 9 to 15
calls. Another GPU or driver has other times of the same order of magnitude. Mapping is paid by the page, and
a page of 64 MiB takes hardly longer than one of 2 MiB: that is what `large_segment_size_mb` can gain with
expandable segments.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.allocator.result import DeviceCall, DeviceCalls
from autotune.units import GIB, MIB

Times = tuple[tuple[int, float], ...]
"""Pairs of bytes and microseconds, ascending."""

CALL_MICROSECONDS: dict[DeviceCall, Times] = {
    DeviceCall.ALLOC: (
        (2 * MIB, 39), (64 * MIB, 41), (256 * MIB, 52), (1 * GIB, 124), (4 * GIB, 230), (16 * GIB, 940),
    ),
    DeviceCall.FREE: (
        (2 * MIB, 33), (64 * MIB, 54), (256 * MIB, 110), (1 * GIB, 323), (4 * GIB, 1167), (16 * GIB, 6441),
    ),
}  # fmt: skip
"""Time of a call by the bytes of its segment."""

PAGE_MICROSECONDS: dict[DeviceCall, Times] = {
    DeviceCall.MAP: ((2 * MIB, 53), (20 * MIB, 51), (64 * MIB, 68), (128 * MIB, 72), (256 * MIB, 86)),
    DeviceCall.UNMAP: ((2 * MIB, 45), (20 * MIB, 51), (64 * MIB, 77), (128 * MIB, 107), (256 * MIB, 175)),
}
"""Time for each page of a call by the bytes of a page."""

PAGED_CALL_MICROSECONDS = 30
"""What a call that maps or unmaps costs besides its pages."""


def driver_seconds(calls: DeviceCalls, first_operation: int) -> float:
    """Seconds that the driver needs for the calls made at row `first_operation` or later."""
    counted = calls.operation >= first_operation
    microseconds = 0.0
    for kind, times in CALL_MICROSECONDS.items():
        microseconds += _interpolate(times, calls.size[counted & (calls.kind == kind)]).sum()
    for kind, times in PAGE_MICROSECONDS.items():
        chosen = counted & (calls.kind == kind)
        # An engine that does not know pages: as if each call had one.
        pages = calls.pages[chosen] if len(calls.pages) else np.ones(int(chosen.sum()), np.int64)
        each = _interpolate(times, calls.size[chosen] / np.maximum(pages, 1))
        microseconds += (PAGED_CALL_MICROSECONDS + pages * each).sum()
    return float(microseconds * 1e-6)


def _interpolate(times: Times, size: npt.NDArray[np.number]) -> npt.NDArray[np.float64]:
    """Times at the sizes, on straight lines between the points in logarithmic axes, clamped outside."""
    sizes, microseconds = np.log(np.array(times, dtype=np.float64)).T
    logarithms: npt.NDArray[np.float64] = np.interp(np.log(size), sizes, microseconds)
    return np.asarray(np.exp(logarithms))
