"""Words and cells that every rendering shares: so the terminal, the page and the dashboard say the same."""

from __future__ import annotations

import contextlib
import shlex
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.measurement import Environment, Measurement, Obtained
from autotune.report.confirmed import MORE_STEPS, confirmations, growth
from autotune.report.doubts import doubts, numbers_of
from autotune.report.noise import percentile_95
from autotune.report.objectives import point
from autotune.report.reasons import why
from autotune.report.stored import Conditions, Row
from autotune.report.summary import Summary
from autotune.settings import ENVIRONMENT_VARIABLE
from autotune.units import format_bytes, format_change, format_percent, format_seconds, printable

DEFAULTS = "(PyTorch's defaults)"
plain = printable

NEEDS_FRACTION = (
    "garbage_collection_threshold works only under a memory fraction below 1: "
    "call torch.cuda.set_per_process_memory_fraction in the script."
)
_OBTAINED = {
    Obtained.MEASURED: "Measured: every trial is a real run on the GPU.",
    Obtained.REPLAYED: "Replayed: a trace recorded on a GPU, run through a model of the allocator. "
    "Step time is not known; the third number is the time spent in driver calls after warm-up.",
    Obtained.ESTIMATED: "Estimated: recorded without a GPU. Step time is not known; the third number is the "
    "time spent in driver calls after warm-up.",
}


@dataclass(frozen=True, kw_only=True)
class Cells:
    """One row of a table, as text. Changes are against the defaults, and empty for the defaults."""

    settings: str
    memory: str
    memory_change: str
    fragmentation: str
    seconds: str
    seconds_change: str
    tail: str = ""
    """The step time that 95 % of the steps do not exceed; empty where there are too few."""
    retries: str = ""
    """`2 retries` of allocations in the whole run; empty without any."""


def cells(summary: Summary, row: Row) -> Cells:
    """The row's numbers for people; the outcome in their place where it did not complete."""
    found, reference = point(row), summary.baseline and point(summary.baseline)
    if found is None:
        return Cells(
            settings=row.settings or DEFAULTS,
            memory=outcome(row),
            memory_change="",
            fragmentation="",
            seconds="",
            seconds_change="",
        )
    compare = reference and summary.baseline is not None and row.number != summary.baseline.number
    return Cells(
        settings=row.settings or DEFAULTS,
        memory=format_bytes(found[0]),
        memory_change=format_change(found[0], reference[0]) if compare and reference else "",
        fragmentation=format_percent(found[1]),
        seconds=seconds_with_spread(row.measurement, found[2]),
        seconds_change=_seconds_change(row, found[2], reference[2]) if compare and reference else "",
        tail=_tail(row.measurement),
        retries=_retries(row.measurement),
    )


def _tail(measurement: Measurement) -> str:
    found = percentile_95(measurement.step_seconds)
    return f"p95 {format_seconds(found)}" if found else ""


def _retries(measurement: Measurement) -> str:
    count = measurement.num_alloc_retries or 0
    return f"{count:,} {'retry' if count == 1 else 'retries'}" if count else ""


def _seconds_change(row: Row, seconds: float, reference: float) -> str:
    """Step time as a share; driver time as a difference, because it is a small part of an unknown step."""
    if row.measurement.obtained is Obtained.MEASURED:
        return format_change(seconds, reference)
    difference = seconds - reference
    if difference == 0:
        return "as before"
    return f"{'+' if difference > 0 else '−'}{format_seconds(abs(difference))}"


def seconds_with_spread(measurement: Measurement, seconds: float) -> str:
    """`12.3 ms ± 0.4 ms`: median and median absolute deviation of the steps; a replay has no spread."""
    times = measurement.step_seconds
    if len(times) < 2:
        return format_seconds(seconds)
    deviation = statistics.median(abs(time - seconds) for time in times)
    return f"{format_seconds(seconds)} ± {format_seconds(deviation)}"


def third_objective(summary: Summary) -> str:
    """Heading of the third column."""
    return "step time" if summary.conditions.obtained is Obtained.MEASURED else "driver time"


def time_phrase(summary: Summary, row: Row) -> str:
    """`step time 12.3 ms (+1.0 %)`; driver time with what it is a part of: +788 µs may double it and yet be
    nothing.
    """
    shown = cells(summary, row)
    change = f" ({shown.seconds_change})" if shown.seconds_change else ""
    return f"{third_objective(summary)} {shown.seconds}{change}{_scale(summary, row)}"


def _scale(summary: Summary, row: Row) -> str:
    """` in 20 steps, 0.2 % of the recorded 4.5 s`; the share where the recorded run has a length."""
    if summary.conditions.obtained is Obtained.MEASURED:
        return ""
    steps, recorded = summary.conditions.recorded_steps, summary.conditions.recorded_seconds
    found = point(row)
    within = f" in {steps:,} step{'s' * (steps != 1)}" if steps else " after warm-up"
    if not recorded or found is None or found[2] <= 0:
        return within
    return f"{within}, {format_percent(found[2] / recorded)} of the recorded {format_seconds(recorded)}"


def obtained_sentence(summary: Summary) -> str:
    """How the numbers came about and what they leave out."""
    return _OBTAINED[summary.conditions.obtained]


def outcome(row: Row) -> str:
    """The outcome in words."""
    return row.measurement.outcome.words


def subject(summary: Summary) -> str:
    """What was tuned, in one line."""
    return tuned(summary.conditions)


def tuned(conditions: Conditions) -> str:
    """The script with its arguments, or the trace where no script is known."""
    what = _from_here(conditions.script or conditions.trace or "?")
    return plain(" ".join([what, *conditions.arguments]))


def _from_here(path: str) -> str:
    """The path as one would type it: relative to the working folder where it lies inside."""
    with contextlib.suppress(ValueError, OSError):
        return str(Path(path).relative_to(Path.cwd()))
    return path


def machine(summary: Summary) -> str:
    """GPU, its memory, driver and torch, and the memory limit; as far as known."""
    environment, limit = summary.conditions.environment, summary.conditions.memory_limit_bytes
    parts = [
        card(environment),
        f"driver {environment.driver}" if environment.driver else "",
        f"torch {environment.torch}" if environment.torch else "",
        f"memory limit {format_bytes(limit)}" if limit else "",
    ]
    return plain(", ".join(part for part in parts if part))


def card(environment: Environment) -> str:
    """GPU and its memory; a GPU that is named by nothing but its size has that said once."""
    name, total = environment.gpu or "a GPU", environment.device_total_bytes
    return f"{name}, {format_bytes(total)}" if total and not name.startswith("GPU of ") else name


def verdict(summary: Summary) -> str:
    """One sentence: which trial to use, and what it gains and costs."""
    row, baseline = summary.recommended, summary.baseline
    if row is None and summary.nothing_fits:
        return f"Nothing that was tried fits into {summary.memory}, so there is nothing to recommend."
    if row is None:
        return "Nothing has completed, so there is nothing to recommend."
    if baseline is not None and row.number == baseline.number:
        if summary.conditions.memory_limit_bytes is not None:
            return "Keep PyTorch's defaults: they fit, and nothing that was tried is faster or needs less."
        return (
            "Keep PyTorch's defaults: nothing that was tried saves memory without costing more than it saves."
        )
    shown = cells(summary, row)
    if not shown.memory_change:
        costs = f"peak reserved {shown.memory}, {time_phrase(summary, row)}"
        return f"Use trial {row.number}: {costs}; {_where_the_defaults_end(baseline)}."
    if (found := _confirmed(summary, row)) is not None:
        return f"Use trial {row.number}: {found}."
    return (
        f"Use trial {row.number}: compared with the defaults {shown.memory} ({shown.memory_change}), "
        f"{time_phrase(summary, row)}."
    )


def reason(summary: Summary) -> str:
    """Why it is that trial; empty where none is recommended."""
    return f"Why: {why(summary.choice)}" if summary.choice is not None else ""


def _where_the_defaults_end(baseline: Row | None) -> str:
    if baseline is None:
        return "the defaults were not run"
    if baseline.measurement.obtained is Obtained.MEASURED:
        return f"the defaults ended: {outcome(baseline)}"
    return f"the defaults end by replay: {outcome(baseline)}"


def _confirmed(summary: Summary, row: Row) -> str | None:
    """What the confirming runs say of a row, which rests on more than its own trial; None without them."""
    found = next((one for one in confirmations(summary.rows) if one.settings == row.settings), None)
    if found is None or found.memory is None or found.failures:
        return None
    reserved = statistics.median(found.peak_reserved_bytes)
    longer = f"in an estimate of {MORE_STEPS} times the steps against the defaults"
    parts = ["confirmed against the defaults" if found.measured else longer]
    parts.append(f"peak reserved {format_bytes(reserved)} ({format_change(found.memory.ratio, 1)})")
    if found.seconds is not None:
        parts.append(
            f"step time {format_change(found.seconds.ratio, 1)}"
            if found.seconds.beyond_noise
            else "no difference in step time beyond noise"
        )
    if found.tail is not None and found.tail.beyond_noise:
        parts.append(f"its p95 {format_change(found.tail.ratio, 1)}")
    return ", ".join(parts)


def assignment(summary: Summary) -> str:
    """The line to copy; empty where there is nothing to set."""
    row = summary.recommended
    return f"{ENVIRONMENT_VARIABLE}={shlex.quote(row.settings)}" if row is not None and row.settings else ""


def _workspaces(rows: Sequence[Row]) -> list[str]:
    """What a replay cannot know of those that ran out of memory; in one place, as it is true of many."""
    adaptable = [row for row in rows if row.measurement.may_adapt]
    if not adaptable:
        return []
    return [
        f"A replay asks for what was recorded. What did not fit in trial {numbers_of(adaptable)} is freed "
        "at once, as a workspace is: there the script itself may fall back to a smaller one and complete, "
        "which a replay cannot know."
    ]


def warnings(summary: Summary) -> list[str]:
    """What a reader should know before trusting the numbers."""
    found = list(summary.conditions.notes)
    rows = summary.rows
    found += [note for row in rows for note in row.measurement.notes]
    if any(row.measurement.whole_run_is_one_step for row in rows):
        found.append(
            "The script never steps an optimizer, so its whole run counts as one step; "
            "call autotune.step() at the end of each step to have them timed."
        )
    found += [*_workspaces(rows), *doubts(rows, summary.conditions.measured_steps)]
    found += filter(None, [growth(rows)])
    tenants = sorted({tenant for row in rows for tenant in row.measurement.environment.tenants})
    if tenants:
        found.append(
            f"Other processes used the GPU during trials ({', '.join(tenants[:3])}); "
            "memory and time are less certain, so run again when they have ended."
        )
    row = summary.recommended
    if row is not None and "garbage_collection_threshold" in row.settings:
        found.append(NEEDS_FRACTION)
    return [plain(sentence) for sentence in dict.fromkeys(found)]
