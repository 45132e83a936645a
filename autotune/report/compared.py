"""Two recordings side by side: what differs in size, in number, and in what the allocator makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.report.breaks import SettingsCell
from autotune.trace import Trace
from autotune.units import GIB, MIB, format_bytes, format_change

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

CLASSES = ((0, MIB), (MIB, 10 * MIB), (10 * MIB, 100 * MIB), (100 * MIB, GIB), (GIB, 1 << 62))
"""Bytes from (exclusive) and to (inclusive): small pool, shared large segments, and beyond in tens."""
OPERATORS_SHOWN = 12


@dataclass(frozen=True, kw_only=True)
class SizeClass:
    """Allocations of one range of requested bytes, in each recording."""

    above_bytes: int
    up_to_bytes: int
    num_allocations: tuple[int, int]
    requested_bytes: tuple[int, int]
    """In all, not at one time."""


@dataclass(frozen=True, kw_only=True)
class Operator:
    """What one operator asked for, by recording; None where a recording does not know its operators."""

    name: str
    num_allocations: tuple[int | None, int | None]
    requested_bytes: tuple[int | None, int | None]


@dataclass(frozen=True, kw_only=True)
class Peak:
    """Peak reserved of both recordings, replayed under the same settings and the same rules."""

    settings: str
    reserved_bytes: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Everything that is compared of two recordings A and B."""

    files: tuple[str, str]
    estimated: tuple[bool, bool]
    steps: tuple[int, int]
    num_operations: tuple[int, int]
    peak_requested_bytes: tuple[int, int]
    """Of live blocks, unrounded."""
    peaks: tuple[Peak, ...]
    classes: tuple[SizeClass, ...]
    operators: tuple[Operator, ...]


def compare(traces: tuple[Trace, Trace], files: tuple[str, str], peaks: Sequence[Peak]) -> Comparison:
    """Compare two recordings.

    Args:
        traces: the recordings.
        files: what to call them.
        peaks: of both, as replayed by the caller.
    """
    first, second = traces
    return Comparison(
        files=files,
        estimated=(first.recording.estimated, second.recording.estimated),
        steps=(len(first.step_ends), len(second.step_ends)),
        num_operations=(first.num_operations, second.num_operations),
        peak_requested_bytes=(peak_requested(first), peak_requested(second)),
        peaks=tuple(peaks),
        classes=tuple(_size_class(low, high, traces) for low, high in CLASSES),
        operators=tuple(_operators(traces)),
    )


def peak_requested(trace: Trace) -> int:
    """Most requested bytes alive at one time."""
    if not trace.num_operations:
        return 0
    return int(np.cumsum(np.where(trace.is_alloc, trace.size, -trace.size)).max())


def _size_class(low: int, high: int, traces: tuple[Trace, Trace]) -> SizeClass:
    sizes = [trace.size[trace.is_alloc & (trace.size > low) & (trace.size <= high)] for trace in traces]
    return SizeClass(
        above_bytes=low,
        up_to_bytes=high,
        num_allocations=(len(sizes[0]), len(sizes[1])),
        requested_bytes=(int(sizes[0].sum()), int(sizes[1].sum())),
    )


def _operators(traces: tuple[Trace, Trace]) -> list[Operator]:
    known = [trace.recording.operators for trace in traces]
    names = sorted({name for table in known for name in table})
    found = [
        Operator(
            name=name,
            num_allocations=(_column(known[0], name, 0), _column(known[1], name, 0)),
            requested_bytes=(_column(known[0], name, 1), _column(known[1], name, 1)),
        )
        for name in names
    ]
    return sorted(found, key=lambda one: -max(number or 0 for number in one.requested_bytes))


def _column(table: Any, name: str, column: int) -> int | None:
    if not table:
        return None
    return int(table[name][column]) if name in table else 0


def document(comparison: Comparison) -> dict[str, Any]:
    """The comparison as one JSON document; every pair is A's number, then B's."""
    return {
        "files": list(comparison.files),
        "estimated": list(comparison.estimated),
        "steps": list(comparison.steps),
        "operations": list(comparison.num_operations),
        "peak_requested_bytes": list(comparison.peak_requested_bytes),
        "peak_reserved_bytes": [
            {"settings": peak.settings, "bytes": list(peak.reserved_bytes)} for peak in comparison.peaks
        ],
        "size_classes": [
            {
                "above_bytes": one.above_bytes,
                "up_to_bytes": one.up_to_bytes,
                "allocations": list(one.num_allocations),
                "requested_bytes": list(one.requested_bytes),
            }
            for one in comparison.classes
        ],
        "operators": [
            {
                "name": one.name,
                "allocations": list(one.num_allocations),
                "requested_bytes": list(one.requested_bytes),
            }
            for one in comparison.operators
        ],
    }


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print which files these are, then peaks, size classes and operators."""
    for letter, file, estimated, steps, count in zip(
        "AB",
        comparison.files,
        comparison.estimated,
        comparison.steps,
        comparison.num_operations,
        strict=True,
    ):
        kind = "ESTIMATED, recorded without a GPU" if estimated else "recorded on a GPU"
        console.print(
            f"{letter}  {file}: {kind}; {count:,} operations, {steps} steps",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    console.print(_peaks_table(comparison))
    console.print(_classes_table(comparison))
    if comparison.operators:
        console.print(_operators_table(comparison))


def _table(title: str, *columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, title_style="bold")
    table.add_column(columns[0])
    for name in columns[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _peaks_table(comparison: Comparison) -> Table:
    table = _table("Peaks, replayed by the same rules", "settings", "A", "B", "B against A")
    first, second = comparison.peak_requested_bytes
    table.add_row("(requested, live)", *_pair(first, second))
    for peak in comparison.peaks:
        table.add_row(SettingsCell(peak.settings or "defaults"), *_pair(*peak.reserved_bytes))
    return table


def _classes_table(comparison: Comparison) -> Table:
    table = _table("Allocations by size", "requested", "A", "B", "A in all", "B in all", "B against A")
    for one in comparison.classes:
        if not any(one.num_allocations):
            continue
        counts = [f"{count:,}" for count in one.num_allocations]
        table.add_row(_range(one), *counts, *_pair(*one.requested_bytes))
    return table


def _operators_table(comparison: Comparison) -> Table:
    table = _table("Operators that ask for most", "operator", "A", "B", "A in all", "B in all")
    for one in comparison.operators[:OPERATORS_SHOWN]:
        counts = ["—" if count is None else f"{count:,}" for count in one.num_allocations]
        sizes = ["—" if size is None else format_bytes(size) for size in one.requested_bytes]
        table.add_row(one.name, *counts, *sizes)
    return table


def _range(one: SizeClass) -> str:
    if one.up_to_bytes > 1 << 60:
        return f"over {format_bytes(one.above_bytes)}"
    return f"to {format_bytes(one.up_to_bytes)}"


def _pair(first: int, second: int) -> tuple[str, str, str]:
    return format_bytes(first), format_bytes(second), format_change(second, first)
