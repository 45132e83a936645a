"""Trace: what a program asked of the allocator, in order, free of any allocator's answers.

One row is one operation. A row says which block is allocated or freed, how many bytes were requested
(before any rounding), on which stream and in which pool. Addresses and segments are left out on purpose:
they are answers of the recorded run's allocator, and other settings give other answers.

A free is one row, placed where it *completed* (PyTorch's `free_completed`): for a block used on other
streams that is later than the call to free it, and a replay repeats the recorded moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What is known of the run that a trace was recorded from. None where the file does not say."""

    torch: str | None = None
    """Version string of the recorded torch, such as `2.11.0+cu130`."""
    gpu: str | None = None
    """Name of the GPU, such as `NVIDIA H200`."""
    device_total_bytes: int | None = None
    """What torch reported as the GPU's total memory."""
    memory_fraction: float | None = None
    """Value of `set_per_process_memory_fraction` during the recording; None when it was not set."""
    settings: str = ""
    """Allocator settings in effect while recording, as an environment string."""
    estimated: bool = False
    """True when recorded without a GPU: sizes are the tensors', library workspaces are missing."""
    observed: Mapping[str, int] = field(default_factory=dict)
    """What the recorded run's allocator did (names as in ReplayResult): reported by it, or read off its
    events. After a fatal OOM also `device_free_bytes_at_oom`, if the file has it."""
    script: str | None = None
    """Path of the script that was recorded."""
    operators: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Operator → number of allocations and requested bytes in all; empty where the recorder did not know."""
    notes: tuple[str, ...] = ()
    """Sentences the recorder wants on every report made from this trace."""


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Operations of one recorded run, as arrays of equal length `n` (one row an operation)."""

    is_alloc: npt.NDArray[np.bool_]
    """(n,) True for an allocation, False for a (completed) free."""
    block: Rows
    """(n,) id of the block, 0 … num_blocks − 1 in order of first allocation; never reused."""
    size: Rows
    """(n,) bytes requested for the block, unrounded; a free repeats its block's size. Always > 0."""
    stream: Rows
    """(n,) dense index of the stream that the block belongs to; 0 is the first seen."""
    pool: Rows
    """(n,) dense index of the memory pool; 0 is the default pool, others are private (graphs, MemPool)."""
    time_us: Rows
    """(n,) recorded time in microseconds; all zero where the file has none."""
    num_preexisting: int = 0
    """The first rows that are blocks alive before the recording began, in address order per stream."""
    step_ends: tuple[int, ...] = ()
    """Row index just after each optimizer step; empty when steps are not known."""
    oom_size: int | None = None
    """Requested bytes of the last row, if that is the allocation that ended the recorded run by an OOM."""
    recording: Recording = field(default_factory=Recording)

    @property
    def num_operations(self) -> int:
        """Number of rows."""
        return len(self.block)

    @property
    def num_blocks(self) -> int:
        """Number of distinct blocks; ids run from 0 to one less."""
        return int(self.block.max()) + 1 if len(self.block) else 0

    @property
    def peak_requested_bytes(self) -> int:
        """Most bytes alive at once, unrounded: no allocator needs less."""
        return int(self.live_bytes.max(initial=0))

    @property
    def live_bytes(self) -> Rows:
        """(n,) bytes requested and not freed, after each row."""
        return np.cumsum(np.where(self.is_alloc, self.size, -self.size))

    @property
    def num_streams(self) -> int:
        """Number of distinct streams."""
        return int(self.stream.max()) + 1 if len(self.stream) else 0

    @property
    def num_pools(self) -> int:
        """Number of distinct pools, the default pool included."""
        return int(self.pool.max()) + 1 if len(self.pool) else 1
