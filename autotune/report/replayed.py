"""Replays as data (`--json`) and as text that fits 80 columns and reads the same in a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from autotune.allocator.explain import KINDS, Explanation
from autotune.allocator.result import ReplayResult
from autotune.allocator.selfcheck import SelfCheck
from autotune.measurement import Outcome
from autotune.report.breaks import SettingsCell, breakable
from autotune.settings import TorchVersion
from autotune.trace.trace import Trace
from autotune.units import format_bytes, format_change, format_percent

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

DEFAULTS = "(PyTorch's defaults)"
SHOWN_PINNED = 3
FIRST_CREDIBLE_YEAR = 2020
"""Times below are no wall clock, but counted from some start."""

KIND_NAMES = {
    "live_bytes": "live",
    "rounding_bytes": "rounding",
    "split_remainder_bytes": "split rest",
    "cached_bytes": "cached",
    "page_rounding_bytes": "page rest",
}


@dataclass(frozen=True, kw_only=True)
class Replays:
    """One trace under many settings."""

    file: str
    trace: Trace
    settings: Sequence[str]
    """As asked for; in this order are `results`, `fits` and `explanations`."""
    results: Sequence[ReplayResult]
    fits: Sequence[int | None] | None = None
    """Smallest memory in which the trace completes; None where it was not asked for."""
    explanations: Sequence[Explanation] | None = None
    check: SelfCheck
    torch_version: TorchVersion
    """Whose rules the model followed."""
    device_total: int
    memory_limit: int | None
    assumptions: Sequence[str] = ()
    """Sentences on what was assumed because nobody said it."""


def document(replays: Replays) -> dict[str, Any]:
    """The JSON document of `replay --json`."""
    return {
        "trace": _trace_document(replays),
        "results": [_result(replays, n) for n in range(len(replays.results))],
    }


def _trace_document(replays: Replays) -> dict[str, Any]:
    trace, recording = replays.trace, replays.trace.recording
    return {
        "file": replays.file,
        "operations": trace.num_operations,
        "blocks": trace.num_blocks,
        "streams": trace.num_streams,
        "pools": trace.num_pools,
        "blocks_alive_before": trace.num_preexisting,
        "steps": len(trace.step_ends),
        "oom_size_bytes": trace.oom_size,
        "gpu": recording.gpu,
        "torch": recording.torch,
        "settings": recording.settings,
        "script": recording.script,
        "estimated": recording.estimated,
        "observed": dict(recording.observed),
        "notes": [*recording.notes, *replays.assumptions],
        "self_check": replays.check.to_json(),
        "torch_version": "{}.{}".format(*replays.torch_version),
        "device_total_bytes": replays.device_total,
        "memory_limit_bytes": replays.memory_limit,
    }


def _result(replays: Replays, number: int) -> dict[str, Any]:
    result = replays.results[number]
    found: dict[str, Any] = {
        "settings": replays.settings[number],
        "engine": result.engine,
        "outcome": str(result.outcome),
        "failed_operation": result.failed_operation,
        "peak_requested_bytes": result.peak_requested_bytes,
        "peak_allocated_bytes": result.peak_allocated_bytes,
        "peak_active_bytes": result.peak_active_bytes,
        "peak_reserved_bytes": result.peak_reserved_bytes,
        "fragmentation": result.fragmentation,
        "num_device_alloc": result.num_device_alloc,
        "num_device_free": result.num_device_free,
        "num_alloc_retries": result.num_alloc_retries,
        "operations": result.operations,
        "seconds": result.seconds,
        "reserved_bytes_at_end": result.reserved_bytes_at_end,
        "may_adapt": result.may_adapt,
    }
    if replays.fits is not None:
        found["smallest_fit_bytes"] = replays.fits[number]
    if replays.explanations is not None:
        found["explanation"] = replays.explanations[number].to_json()
    return found


def print_replays(replays: Replays, console: Console) -> None:
    """Print where the trace is from, the table, what ran out of memory, and how far to believe it."""

    def say(text: str, style: str = "") -> None:
        console.print(breakable(text, console.width), style=style, markup=False, highlight=False)

    say(origin_sentence(replays.file, replays.trace), "bold")
    say(conditions_sentence(replays))
    console.print(_table(replays))
    for sentence in failure_sentences(replays):
        say(sentence)
    for explanation, settings in zip(replays.explanations or (), replays.settings, strict=False):
        say(f"\n{settings or DEFAULTS}: {explanation_sentence(explanation)}", "bold")
        console.print(_shares_table(explanation))
        for sentence in pinned_sentences(explanation):
            say(sentence)
    say(replays.check.sentence(), "yellow" if replays.check.trusted is False else "")


def origin_sentence(file: str, trace: Trace) -> str:
    """What the trace is and where it comes from."""
    recording = trace.recording
    where = "without a GPU, an ESTIMATE" if recording.estimated else f"on {recording.gpu or 'an unnamed GPU'}"
    date = _date(trace)
    parts = [
        f"{file}: {trace.num_operations:,} allocations and frees, recorded {where}",
        f"torch {recording.torch}" if recording.torch else "an unnamed torch",
        f"on {date}" if date else "",
        f"under {recording.settings}" if recording.settings else "",
    ]
    ended = f" It ended out of memory, asking for {format_bytes(trace.oom_size)}." if trace.oom_size else ""
    return ", ".join(part for part in parts if part) + "." + ended


def _date(trace: Trace) -> str | None:
    """The day of the recording, if its times are those of a calendar."""
    if not trace.num_operations:
        return None
    try:
        when = datetime.fromtimestamp(int(trace.time_us[-1]) / 1e6, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return f"{when:%Y-%m-%d}" if when.year >= FIRST_CREDIBLE_YEAR else None


def conditions_sentence(replays: Replays) -> str:
    """Under which conditions it was replayed."""
    engine = replays.results[0].engine if replays.results else "model"
    rules = "the allocator of the installed torch"
    if engine == "model":
        rules = "the model, by the rules of torch {}.{}".format(*replays.torch_version)
    limit = "without a memory limit"
    if replays.memory_limit is not None:
        limit = f"within {format_bytes(replays.memory_limit)}"
    return f"Replayed through {rules}, {limit}, on a GPU of {format_bytes(replays.device_total)}."


def failure_sentences(replays: Replays) -> list[str]:
    """What ran out of memory, where, and whether the script may do without."""
    sentences = []
    for settings, result in zip(replays.settings, replays.results, strict=True):
        if result.failed_operation is None:
            continue
        row = result.failed_operation
        asked = format_bytes(int(replays.trace.size[row]))
        sentence = f"{settings or DEFAULTS} ran out of memory at operation {row:,}, which asked for {asked}."
        if replays.trace.oom_size is not None and row == replays.trace.num_operations - 1:
            sentence += " So did the recorded run."
        if result.may_adapt:
            sentence += (
                " It is freed at once, as a library's workspace is: the script may adapt, take a smaller one "
                "and go on."
            )
        sentences.append(sentence)
    return sentences


def _table(replays: Replays) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0)
    table.add_column("settings")
    table.add_column("outcome", width=9)
    table.add_column("peak reserved", justify="right", width=9)
    table.add_column("fragm.", justify="right", width=6)
    table.add_column("device calls", justify="right", width=7)
    table.add_column("retries", justify="right", width=7)
    if replays.fits is not None:
        table.add_column("fits in", justify="right", width=9)
    for number, result in enumerate(replays.results):
        row = [
            "completed" if result.outcome is Outcome.COMPLETED else "out of memory",
            _with_change(replays, number),
            format_percent(result.fragmentation),
            f"{result.num_device_alloc + result.num_device_free:,}",
            f"{result.num_alloc_retries:,}",
        ]
        if replays.fits is not None:
            fit = replays.fits[number]
            row.append("no GPU like this" if fit is None else format_bytes(fit))
        table.add_row(SettingsCell(replays.settings[number] or DEFAULTS), *map(Text, row))
    return table


def _with_change(replays: Replays, number: int) -> str:
    """Peak reserved, and below it the change against the first of the settings, where both completed."""
    result, reference = replays.results[number], replays.results[0]
    value = format_bytes(result.peak_reserved_bytes)
    if number == 0 or {result.outcome, reference.outcome} != {Outcome.COMPLETED}:
        return value
    return f"{value}\n{format_change(result.peak_reserved_bytes, reference.peak_reserved_bytes)}"


def explanation_sentence(explanation: Explanation) -> str:
    """When the peak was, and its parts."""
    parts = ", ".join(
        f"{format_bytes(explanation.total(kind))} {KIND_NAMES[kind]}"
        for kind in KINDS
        if explanation.total(kind)
    )
    return (
        f"{format_bytes(explanation.peak_reserved_bytes)} were reserved at operation "
        f"{explanation.operation:,}: {parts}."
    )


def _shares_table(explanation: Explanation) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("pool, stream")
    for name in (*KIND_NAMES.values(), "reserved"):
        table.add_column(name, justify="right")
    for share in explanation.shares:
        values = [getattr(share, kind) for kind in KIND_NAMES] + [share.reserved_bytes]
        table.add_row(f"{share.pool}, {share.stream}", *(Text(format_bytes(value)) for value in values))
    return table


def pinned_sentences(explanation: Explanation) -> list[str]:
    """The live blocks that keep most memory from being given back."""
    return [
        f"A block of {format_bytes(segment.block_bytes)}, alive since operation {segment.since_operation:,}, "
        f"pins {format_bytes(segment.free_bytes)} free in a segment of {format_bytes(segment.segment_bytes)}"
        + (f" (with {segment.num_live_blocks - 1} smaller)." if segment.num_live_blocks > 1 else ".")
        for segment in explanation.pinned_segments[:SHOWN_PINNED]
    ]
