"""Random programs under random conditions, for the model and PyTorch's own allocator to disagree on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from autotune.allocator.result import H200_TOTAL_BYTES
from autotune.errors import SettingsError
from autotune.settings import AllocatorSettings, TorchVersion
from autotune.trace import Trace
from autotune.units import GIB, MIB
from tests.traces import Program

THRESHOLDS = (
    [1 << power for power in range(9, 31)]
    + [size * MIB for size in (3, 5, 6, 10, 11, 12, 19, 20, 21, 22, 31, 40, 51, 70, 72, 100, 130, 200, 300)]
    + [1280, 1536, 1792, 2560, 3072, 5 * MIB // 4, 3 * MIB // 2]
)
"""Bytes at which, or near which, some rule begins to hold: pools, segments, splits, roundings."""
NUDGES = (0, -1, 1, 511, 512, -512, 513)
TOTALS = (64 * MIB, 200 * MIB, 333 * 3 * MIB, GIB, 4 * GIB, H200_TOTAL_BYTES)
ROUNDUPS = (
    "1", "2", "4", "8", "16", "64", "[256:1,512:2,1024:4,>:8]", "[1:4,>:2]", "[>:8]", "[2:8,64:4]",
    "[32:256,64:128,256:64,>:32]", "[1:2,2:0,8:4]",
)  # fmt: skip
SPLITS = (20, 21, 22, 24, 32, 50, 64, 72, 128, 200, 256)
LARGE_SEGMENTS = (11, 12, 16, 20, 21, 24, 32, 64, 100)
THRESHOLDS_OF_GC = (0.01, 0.1, 0.3, 0.5, 0.6, 0.8, 0.9, 0.99)

sizes = st.one_of(
    st.builds(lambda size, nudge: max(1, size + nudge), st.sampled_from(THRESHOLDS), st.sampled_from(NUDGES)),
    st.integers(1, 4096),
    st.integers(1, 64 * MIB),
)


@dataclass(frozen=True)
class Case:
    """One replay; printed, it is Python that repeats it."""

    trace: Trace
    settings: str
    memory_limit: int | None
    device_total: int
    torch: TorchVersion

    def __repr__(self) -> str:
        return (
            f"{source(self.trace)}\n"
            f"run(program, {self.settings!r}, memory_limit={self.memory_limit}, "
            f"device_total={self.device_total}, torch={self.torch})"
        )


def source(trace: Trace) -> str:
    """The program whose trace this is, as in `tests.traces`."""
    lines = ["program = Program()"]
    for is_alloc, block, size, stream, pool in zip(
        trace.is_alloc, trace.block, trace.size, trace.stream, trace.pool, strict=True
    ):
        where = (f", stream={stream}" if stream else "") + (f", pool={pool}" if pool else "")
        lines.append(f"b{block} = program.alloc({size}{where})" if is_alloc else f"program.free(b{block})")
    return "\n".join(lines)


@st.composite
def cases(draw: st.DrawFn, torch: TorchVersion) -> list[Case]:
    """Some cases with one program, for one release of torch."""
    trace = draw(programs()).trace()
    return [draw(configured(trace, torch)) for _ in range(draw(st.integers(1, 4)))]


# What is repeated repeats itself with other sizes and other blocks, as the steps of a program do.
acts = st.lists(st.integers(0, (1 << 12) - 1), max_size=40)
loops = st.tuples(acts, st.sampled_from((1, 1, 2, 3, 8, 25)))
MOST_ROWS = 500


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Allocations and frees in any order, in loops and bursts; what is never freed is a leak."""
    palette = draw(st.lists(sizes, min_size=1, max_size=8))
    num_streams = draw(st.sampled_from((1, 1, 1, 2, 4)))
    num_pools = draw(st.sampled_from((1, 1, 1, 1, 2, 3)))
    turns = [
        (act, turn)
        for acts, count in draw(st.lists(loops, max_size=8))
        for turn in range(count)
        for act in acts
    ]
    program, live = Program(), list[int]()
    for act, turn in turns[:MOST_ROWS]:
        kind, which = act % 8, act // 8
        burst = 2 + which // 16 % 8 if kind in (3, 7) else 1
        if kind < 4:
            size = palette[(which % 16 + turn) % len(palette)]
            stream, pool = which // 128 % num_streams, which // 256 * (which % num_pools)
            live += [program.alloc(size, stream=stream, pool=pool) for _ in range(burst)]
        else:
            program.free(*[live.pop(which % len(live)) for _ in range(min(burst, len(live)))])
    if draw(st.booleans()):
        program.free(*live)
    return program


@st.composite
def configured(draw: st.DrawFn, trace: Trace, torch: TorchVersion) -> Case:
    """The trace under some legal settings, on some device, with or without a memory limit."""
    total = draw(st.sampled_from(TOTALS))
    peak = peak_bytes(trace)
    limit = draw(
        st.one_of(
            st.none(),
            st.sampled_from((0.2, 0.5, 0.7, 0.95, 1.0)).map(lambda share: int(share * total)),
            st.builds(
                lambda share, extra: int(share * peak) + extra,
                st.sampled_from((0.9, 1.0, 1.1, 1.3, 2.0)),
                st.sampled_from((0, 2 * MIB, 20 * MIB, 40 * MIB, 7)),
            ),
        )
    )
    limit = None if limit is None else min(limit, total)
    return Case(trace, draw(settings(torch)), limit, total, torch)


@st.composite
def settings(draw: st.DrawFn, torch: TorchVersion) -> str:
    """A settings string that this release accepts."""
    chosen: dict[str, Any] = {}

    def maybe(name: str, values: tuple[Any, ...], *, one_in: int) -> Any:
        if draw(st.integers(0, one_in - 1)) == one_in - 1:
            chosen[name] = draw(st.sampled_from(values))
        return chosen.get(name)

    expandable = maybe("expandable_segments", (True,), one_in=3)
    segments = tuple(size for size in LARGE_SEGMENTS if not (expandable and size % 2))
    smallest = maybe("large_segment_size_mb", segments, one_in=3) or 20
    splits = (*(size for size in SPLITS if size >= smallest), smallest)
    maybe("max_split_size_mb", splits, one_in=2)
    maybe("max_non_split_rounding_mb", splits, one_in=3)
    maybe("garbage_collection_threshold", THRESHOLDS_OF_GC, one_in=2)
    maybe("roundup_power2_divisions", ROUNDUPS, one_in=2)
    maybe("per_process_memory_fraction", (0.1, 0.5, 0.9, 1.0), one_in=8)
    maybe("throw_on_cudamalloc_oom", (True,), one_in=8)
    return ",".join(f"{name}:{value}" for name, value in chosen.items() if accepts(torch, name, value))


def accepts(torch: TorchVersion, name: str, value: Any) -> bool:
    """Whether a release takes the option at all."""
    try:
        AllocatorSettings.parse(f"{name}:{value}").validate(torch)
    except SettingsError:
        return False
    return True


def peak_bytes(trace: Trace) -> int:
    """The most bytes requested at one time."""
    return int(max(np.where(trace.is_alloc, trace.size, -trace.size).cumsum(), default=0))
