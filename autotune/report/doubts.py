"""Doubts: what makes measured numbers less certain than they look, and what to do about each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autotune.measurement import Measurement, Obtained
from autotune.report.stored import Row
from autotune.units import format_percent

BUSY = 0.9
"""Share of all CPU cores above which step times may be the CPU's."""
LAST_STEPS_SHARE = 0.1
"""A peak first reached within this last part of the steps may not be the last one."""
SHOWN_TRIALS = 6


def doubts(rows: Sequence[Row], asked_steps: int | None = None) -> list[str]:
    """One sentence for each kind, with the trials that it concerns.

    Args:
        rows: the trials.
        asked_steps: steps to measure in each, as the study's conditions say; None where they do not.
    """
    measured = [row for row in rows if row.measurement.obtained is Obtained.MEASURED and row.completed]
    found = []
    if short := [row for row in measured if _ended_early(row.measurement, asked_steps)]:
        found.append(f"{_too_few(short, asked_steps)} (trial {numbers_of(short)}).")
    for applies, words in _KINDS:
        if concerned := [row for row in measured if applies(row.measurement)]:
            found.append(f"{words(measured)} (trial {numbers_of(concerned)}).")
    return found


def recording_ended_early(steps: int, warmup: int, measured: int) -> list[str]:
    """What to say of an estimate whose recording holds fewer steps than were asked for, if it does.

    One without any says so itself.
    """
    if not 0 < steps < warmup + measured:
        return []
    return [
        f"The recording ended after {steps} of the {warmup + measured} steps that were asked for (--warmup "
        f"{warmup} and --steps {measured}), so memory that later steps would take is not in it."
    ]


def rises_at_the_end(measurement: Measurement) -> bool:
    """Whether reserved memory reached its highest point only in the last steps."""
    steps = measurement.step_peak_reserved_bytes
    last = max(1, round(LAST_STEPS_SHARE * len(steps)))
    return len(steps) >= 4 and max(steps[-last:]) > max(steps[:-last])


def retried_steps(measurement: Measurement) -> int:
    """How many of the measured steps contain allocation retries."""
    return sum(retries > 0 for retries in measurement.step_alloc_retries[measurement.warmup_steps :])


def _ended_early(measurement: Measurement, asked_steps: int | None) -> bool:
    """Whether the script made fewer steps than were to be measured; one without steps has a note already."""
    return not measurement.whole_run_is_one_step and len(measurement.step_seconds) < (asked_steps or 0)


def _too_few(rows: Sequence[Row], asked_steps: int | None) -> str:
    least = min(len(row.measurement.step_seconds) for row in rows)
    steps = f"{least} step{'s were' if least != 1 else ' was'}"
    return (
        f"The script ended early: only {steps} measured after warm-up, where {asked_steps} were asked for; "
        "let it run longer, or ask for fewer with --warmup and --steps"
    )


def _rising(rows: Sequence[Row]) -> str:
    return (
        "Reserved memory was still rising in the last steps, so the peak may be higher in a longer run; "
        "measure more of them with --steps"
    )


def _retried(rows: Sequence[Row]) -> str:
    counts = [retried_steps(row.measurement) for row in rows if retried_steps(row.measurement)]
    return (
        f"Up to {max(counts)} measured steps contain allocation retries, in which everything cached is "
        "given back and the GPU waits; prefer settings without them, or raise the limit"
    )


def _throttled(rows: Sequence[Row]) -> str:
    reasons = dict.fromkeys(reason for row in rows for reason in row.measurement.environment.throttled)
    return (
        f"The GPU lowered its clocks during trials ({', '.join(reasons)}), which lengthens steps; look at "
        "its cooling and power limit, or compare only what was measured in turn"
    )


def _busy(rows: Sequence[Row]) -> str:
    busiest = max(row.measurement.environment.cpu_busy or 0.0 for row in rows)
    return (
        f"The CPU was up to {format_percent(busiest)} busy during trials, so step times may be the CPU's; "
        "end other work, or give the job more cores"
    )


def numbers_of(rows: Sequence[Row]) -> str:
    """Which trials: `1, 2, 3, 5, 8, 13 and 40 more`."""
    more = f" and {len(rows) - SHOWN_TRIALS} more" if len(rows) > SHOWN_TRIALS else ""
    return ", ".join(str(row.number) for row in rows[:SHOWN_TRIALS]) + more


_KINDS: tuple[tuple[Callable[[Measurement], bool], Callable[[Sequence[Row]], str]], ...] = (
    (rises_at_the_end, _rising),
    (lambda measurement: retried_steps(measurement) > 0, _retried),
    (lambda measurement: bool(measurement.environment.throttled), _throttled),
    (lambda measurement: (measurement.environment.cpu_busy or 0.0) > BUSY, _busy),
)
