"""ReplayResult: what an allocator did with a trace under some settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from autotune.measurement import Outcome
from autotune.settings import DEFAULT_LARGE_SEGMENT_MB, AllocatorSettings, TorchVersion
from autotune.trace.trace import Trace
from autotune.units import MIB

H200_TOTAL_BYTES = 150_109_880_320
"""What torch 2.11 reports as total memory of an NVIDIA H200; used where a trace does not name its GPU."""
OVERSHOOT = DEFAULT_LARGE_SEGMENT_MB * MIB
"""What may be held above a memory limit. The allocator checks a limit before it rounds up to pages, so that
with expandable segments and pages of hundreds of MB it holds far more, which a smaller GPU would not have."""
TAKEN_FOR_H200 = "The trace does not name its GPU; it is taken for an NVIDIA H200 (--gpu says another)."


def fits(outcome: Outcome, reserved_bytes: int | None, memory_limit: int | None) -> bool:
    """Whether a run completed, on a GPU as small as its memory limit, too."""
    within = memory_limit is None or (reserved_bytes or 0) <= memory_limit + OVERSHOOT
    return outcome is Outcome.COMPLETED and within


class DeviceCall(IntEnum):
    """Kinds of calls that the allocator makes to the driver. The only slow thing an allocator does."""

    ALLOC = 0
    """cudaMalloc of a segment."""
    FREE = 1
    """cudaFree of a segment."""
    MAP = 2
    """One map call of an expandable segment (any number of pages; counted as one device alloc)."""
    UNMAP = 3
    """One unmap of an expandable segment's pages (counted as one device free)."""


@dataclass(frozen=True, kw_only=True)
class DeviceCalls:
    """The driver calls of a replay, in order, as arrays of equal length. Empty where an engine has none."""

    operation: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """(k,) the trace row during which the call was made."""
    kind: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    """(k,) a DeviceCall."""
    size: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """(k,) bytes allocated, freed, mapped or unmapped."""
    pages: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """(k,) pages mapped or unmapped, which is what the driver's time depends on; 1 for the other kinds."""


@dataclass(frozen=True, kw_only=True)
class ReplayResult:
    """Statistics with PyTorch's meaning (`torch.cuda.memory_stats`), after the last operation replayed.

    A replayed free is one event, at its completion, so `allocated` and `active` coincide here.
    """

    settings: AllocatorSettings
    engine: str
    """`model` or `native`."""
    outcome: Outcome
    """COMPLETED or OUT_OF_MEMORY."""
    failed_operation: int | None
    """Row at which memory ran out (the replay stops there); None when the trace completed."""
    operations: int
    """Rows replayed; the failed one is not counted."""
    peak_requested_bytes: int
    peak_allocated_bytes: int
    peak_active_bytes: int
    peak_reserved_bytes: int
    reserved_bytes_at_end: int
    num_device_alloc: int
    num_device_free: int
    num_alloc_retries: int
    seconds: float
    """Wall-clock time of this replay, without loading and compiling."""
    device_calls: DeviceCalls = field(default_factory=DeviceCalls)
    may_adapt: bool = False
    """True when memory ran out at what looks like a workspace: the script may go on with a smaller one."""

    @property
    def fragmentation(self) -> float:
        """1 − peak allocated / peak reserved; 0 for an empty trace."""
        if self.peak_reserved_bytes == 0:
            return 0.0
        return 1.0 - self.peak_allocated_bytes / self.peak_reserved_bytes


class Engine(Protocol):
    """Something that can replay a trace. Stateless between calls; may be called from threads."""

    name: str

    def replay(
        self,
        trace: Trace,
        settings: AllocatorSettings,
        *,
        memory_limit: int | None,
        device_total: int,
        torch_version: TorchVersion,
    ) -> ReplayResult:
        """Replay every row of `trace` from an empty allocator.

        Args:
            trace: operations to replay.
            settings: allocator settings; valid for `torch_version`.
            memory_limit: bytes this process may reserve, as `set_per_process_memory_fraction` sets it;
                None = not set.
            device_total: bytes of memory on the device; all free at the start.
            torch_version: whose rules to follow.
        """
        ...
