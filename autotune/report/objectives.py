"""A row's three objectives as numbers."""

from __future__ import annotations

import math

from autotune.metrics import objectives
from autotune.report.stored import Row

Point = tuple[float, float, float]


def point(row: Row) -> Point | None:
    """The row's three objectives in bytes, share and seconds; None unless it completed with all of them."""
    if not row.completed:
        return None
    measurement = row.measurement
    values = [metric.value(measurement) for metric in objectives(measurement.obtained)]
    if any(value is None or not math.isfinite(value) for value in values):
        return None
    memory, fragmentation, seconds = values
    assert memory is not None and fragmentation is not None and seconds is not None
    return float(memory), float(fragmentation), float(seconds)


def must(row: Row) -> Point:
    """The objectives of a row that completed."""
    values = point(row)
    assert values is not None
    return values
