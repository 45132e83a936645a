"""The `model` engine: PyTorch's CUDA caching allocator, rewritten from its observed behaviour.

Modelled, byte for byte, for torch 2.4 … 2.15: rounding, pools, best fit with each release's tie-break,
splitting, unsplittable blocks, segments of fixed size and expandable ones, garbage collection, memory limits,
the release of cached memory and the retry, running out of memory; streams and private pools.

Ignored, and what holds instead:
    other users of the GPU           all of its memory is free at the start
    driver fragmentation             the driver serves any request for which it has the bytes
    when events complete             a free takes effect where the recording saw it complete
    graph capture, pool destruction  a trace does not say: private pools are used by `use_mem_pool`, and kept
    address reuse by the driver      a new segment lies below all earlier ones (torch ≥ 2.12: counts later)
    expandable_segments_reserve      an expandable segment has addresses for 9/8 of the device
    torch 2.4's asserts              expandable segments with a split size could abort there; here they go on

Room by room: `rules` (settings → numbers), `operations` (trace → arrays), `heap` and `layout` (the state),
`ordered` (sets of free blocks), `blocks`, `rounding`, `lookup`, `segments`, `expandable`, `release`, `replay`
(the loop), `session` (the loop as an object), `invariants` (for tests).
"""

from __future__ import annotations

from autotune.allocator.model.operations import Operations, prepare
from autotune.allocator.model.session import BlockView, ReplaySession
from autotune.allocator.result import Engine, ReplayResult
from autotune.settings import AllocatorSettings, TorchVersion
from autotune.trace.trace import Trace

__all__ = ["BlockView", "Model", "Operations", "ReplaySession", "prepare", "replay_operations"]


class Model:
    """The engine of this package; see the module's docstring for what it models and what it ignores."""

    name = "model"

    def replay(
        self,
        trace: Trace,
        settings: AllocatorSettings,
        *,
        memory_limit: int | None,
        device_total: int,
        torch_version: TorchVersion,
    ) -> ReplayResult:
        """As `Engine.replay`."""
        return replay_operations(
            prepare(trace),
            settings,
            memory_limit=memory_limit,
            device_total=device_total,
            torch_version=torch_version,
        )


def replay_operations(
    operations: Operations,
    settings: AllocatorSettings,
    *,
    memory_limit: int | None,
    device_total: int,
    torch_version: TorchVersion,
) -> ReplayResult:
    """`Engine.replay` for a trace that has been made ready once for many replays."""
    max_calls = 4096
    while True:
        session = ReplaySession(
            operations,
            settings,
            memory_limit=memory_limit,
            device_total=device_total,
            torch_version=torch_version,
            max_calls=max_calls,
        )
        session.advance()
        if session.num_calls <= max_calls:
            return session.result()
        max_calls = session.num_calls  # rarely: once more, with room for all of them


_: Engine = Model()
