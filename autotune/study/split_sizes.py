"""Which values of max_split_size_mb can change anything on a trace.

The allocator compares the size with two things only: the rounded request, and the free block found for it
(`get_free_block` and `should_split` in c10/cuda/CUDACachingAllocator.cpp). So behaviour changes where the
size passes a request's or a segment's, and every value in between acts like its neighbour. Above the largest
segment the option does nothing.
"""

from __future__ import annotations

import numpy as np

from autotune.settings import AllocatorSettings
from autotune.study.evenly import evenly
from autotune.study.predict import Predictor
from autotune.study.space import LARGEST_SPLIT_MB
from autotune.trace.trace import Trace
from autotune.units import MIB

MOST_TRIED = 64
"""Sizes replayed; a trace with more distinct requests has them thinned out."""
MOST_KEPT = 32
SMALLEST_MB = 20
LARGE_REQUEST_MB = 10
"""From this size on a request gets a segment of its own, of its size rounded up to 2 MiB."""


def split_sizes(predictor: Predictor, lowest_mb: int = SMALLEST_MB) -> tuple[int, ...]:
    """Sizes in MB, ascending, each of which behaves unlike the others and unlike no limit on this trace."""
    sizes = candidate_sizes(predictor.trace, lowest_mb)
    settings = [AllocatorSettings(), *(AllocatorSettings(max_split_size_mb=size) for size in sizes)]
    unlimited, *limited = predictor.predict_many(settings)
    first: dict[str, int] = {}
    for size, found in zip(sizes, limited, strict=True):
        if found.behaviour != unlimited.behaviour:
            first.setdefault(found.behaviour, size)
    return tuple(sorted(evenly(list(first.values()), MOST_KEPT)))


def candidate_sizes(trace: Trace, lowest_mb: int = SMALLEST_MB) -> list[int]:
    """Sizes just at and just above the trace's large requests and their segments, ascending."""
    large = np.unique(trace.size[trace.size >= LARGE_REQUEST_MB * MIB])
    requests = -(-large // 512) * 512
    segments = -(-large // (2 * MIB)) * 2 * MIB
    # A size of exactly a segment's stops it from being split; one more megabyte lets it be.
    borders = np.concatenate((requests // MIB + 1, segments // MIB, segments // MIB + 1, [lowest_mb]))
    sizes = sorted({int(size) for size in borders if lowest_mb <= size <= LARGEST_SPLIT_MB})
    return evenly(sizes, MOST_TRIED)
