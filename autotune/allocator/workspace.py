"""Whether a script may get by with less memory than its recording asked for."""

from __future__ import annotations

from autotune.trace.trace import Trace

WORKSPACE_ROWS = 1
"""A workspace is freed by the very next row: a library allocates it, launches one kernel, and frees it.

Under a limit cuDNN takes a smaller workspace when a large one is refused; a replay repeats the recorded
request and reports out of memory. On an NVIDIA H200 four runs completed where their replays ran out of
memory, all four at such a row; in the ten runs that ran out of memory as replayed, the block lived for 2 to
1160 rows.
"""


def may_adapt(trace: Trace, operation: int) -> bool:
    """Whether the allocation at row `operation` looks like a workspace that the script can do without."""
    freed = trace.block[operation + 1 : operation + 1 + WORKSPACE_ROWS] == trace.block[operation]
    return bool(trace.is_alloc[operation] and freed.any())
