"""From a worker's answer to a Measurement: what was in effect, which steps count, how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from autotune.allocator.result import fits
from autotune.measurement import Environment, Measurement, Obtained, Outcome
from autotune.settings import ROUNDUP_INTERVALS, AllocatorSettings, TorchVersion, parse_torch_version
from autotune.trial.runner import Job
from autotune.units import MIB, format_bytes

COUNTERS = ("num_device_alloc", "num_device_free", "num_alloc_retries")
UNLIMITED = (-1, (1 << 64) - 1, (1 << 63) - 1)
"""How releases of torch report a `max_split_size` that is not set."""


def beyond_limit(outcome: Outcome, reserved_bytes: int | None, memory_limit: int | None) -> str | None:
    """Why a run that completed does not fit a GPU as small as its memory limit; None if it does."""
    if outcome is not Outcome.COMPLETED or fits(outcome, reserved_bytes, memory_limit):
        return None
    assert reserved_bytes is not None and memory_limit is not None
    return (
        f"It held {format_bytes(reserved_bytes)} in large pages, which the allocator lets pass, and a GPU of "
        f"{format_bytes(memory_limit)} does not have."
    )


def measurement_of(
    answer: Mapping[str, Any],
    *,
    settings: AllocatorSettings,
    job: Job,
    obtained: Obtained,
    environment: Environment,
    log: str,
) -> Measurement:
    """The Measurement that a worker's answer tells."""
    steps = Steps.of(answer, job)
    peaks: dict[str, int] = answer.get("peaks") or {}
    counts: dict[str, int] = answer.get("counts") or {}
    outcome, reason = Outcome(answer["outcome"]), answer.get("reason")
    reported = answer.get("allocator_settings")
    if reported is not None and outcome is not Outcome.REJECTED:
        differences = difference(settings, reported, parse_torch_version(answer["torch"]))
        if differences:
            outcome, reason = Outcome.REJECTED, f"The settings were not in effect: {'; '.join(differences)}."
    if too_much := beyond_limit(outcome, peaks.get("peak_reserved_bytes"), job.memory_limit_bytes):
        outcome, reason = Outcome.OUT_OF_MEMORY, too_much
    return Measurement(
        settings=str(settings),
        settings_in_effect=None if reported is None else str(in_effect(settings, reported)),
        obtained=obtained,
        outcome=outcome,
        reason=reason,
        log=log,
        notes=(*answer.get("notes", ()), *steps.notes),
        environment=environment,
        memory_limit_bytes=job.memory_limit_bytes,
        warmup_steps=steps.warmup,
        step_seconds=steps.seconds,
        step_peak_reserved_bytes=steps.reserved_bytes,
        step_alloc_retries=steps.retries,
        may_adapt=False,
        whole_run_is_one_step=steps.whole_run,
        **peaks,
        **{name: counts.get(name) for name in (*COUNTERS, "num_ooms")},
        steady_device_alloc=steps.after_warmup("num_device_alloc", counts),
        steady_device_free=steps.after_warmup("num_device_free", counts),
        steady_retries=steps.after_warmup("num_alloc_retries", counts),
        startup_seconds=_between(answer, "launched", "script_began"),
        script_seconds=_between(answer, "script_began", "script_ended"),
    )


def _between(answer: Mapping[str, Any], first: str, second: str) -> float | None:
    if first not in answer or second not in answer:
        return None
    return float(answer[second] - answer[first])


@dataclass(frozen=True, kw_only=True)
class Steps:
    """The steps of a run, split into warm-up and measured ones."""

    warmup: int
    seconds: tuple[float, ...]
    reserved_bytes: tuple[int, ...]
    retries: tuple[int, ...]
    """Of each step, warm-up included."""
    whole_run: bool
    warmup_counts: Mapping[str, int]
    """Counts at the end of warm-up; empty when there was none."""
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, answer: Mapping[str, Any], job: Job) -> Steps:
        """The steps of an answer. A script that ended during warm-up has half of its steps measured."""
        boundaries = answer.get("boundaries") or []
        seconds = tuple(boundary["seconds"] for boundary in boundaries)
        retries = [boundary.get("num_alloc_retries", 0) for boundary in boundaries]
        whole_run = not boundaries and answer["outcome"] == Outcome.COMPLETED
        warmup, notes = job.warmup_steps, []
        if whole_run:
            seconds, warmup = (_between(answer, "script_began", "script_ended") or 0.0,), 0
        elif answer["outcome"] == Outcome.COMPLETED and len(seconds) <= warmup:
            warmup = len(seconds) // 2
            notes.append(
                f"The script made {len(seconds)} steps, no more than the {job.warmup_steps} of warm-up; "
                f"the first {warmup} count as warm-up."
            )
        return cls(
            warmup=warmup,
            seconds=seconds[warmup:],
            reserved_bytes=tuple(boundary.get("reserved_bytes", 0) for boundary in boundaries),
            retries=tuple(after - before for before, after in pairwise((0, *retries))),
            whole_run=whole_run,
            warmup_counts=boundaries[warmup - 1] if 0 < warmup <= len(boundaries) else {},
            notes=tuple(notes),
        )

    def after_warmup(self, name: str, counts: Mapping[str, int]) -> int | None:
        """How far a count went after warm-up; None where it is not known, or warm-up did not end."""
        if name not in counts or not self.seconds:
            return None
        return counts[name] - self.warmup_counts.get(name, 0)


def difference(
    asked: AllocatorSettings, reported: Mapping[str, Any], torch_version: TorchVersion
) -> list[str]:
    """What the allocator reports otherwise than asked, in words; other options are not compared."""
    found = []
    expandable = bool(reported.get("expandable_segments", asked.expandable_segments))
    if expandable != bool(asked.expandable_segments):
        found.append(f"expandable_segments is {expandable}")
    split = asked.max_split_size_mb
    if _split_mb(reported, split) != split:
        found.append(f"max_split_size_mb is {_split_mb(reported, split) or 'unlimited'}")
    threshold = float(reported.get("garbage_collection_threshold", asked.garbage_collection_threshold or 0.0))
    if abs(threshold - (asked.garbage_collection_threshold or 0.0)) > 1e-6:
        found.append(f"garbage_collection_threshold is {threshold:g}")
    divisions = asked.roundup_divisions(torch_version)
    if _divisions(reported, divisions) != divisions:
        found.append(f"roundup_power2_divisions is {list(_divisions(reported, divisions))} by power of two")
    return found


def in_effect(asked: AllocatorSettings, reported: Mapping[str, Any]) -> AllocatorSettings:
    """The settings as the allocator reports them; options that it does not report are taken as asked."""
    split = _split_mb(reported, asked.max_split_size_mb)
    threshold = float(reported.get("garbage_collection_threshold", 0.0))
    expandable = bool(reported.get("expandable_segments", False))
    return replace(
        asked,
        expandable_segments=expandable or None,
        max_split_size_mb=split,
        garbage_collection_threshold=threshold or None,
    )


def _split_mb(reported: Mapping[str, Any], asked: int | None) -> int | None:
    size = reported.get("max_split_size")
    if size is None:
        return asked
    return None if size in UNLIMITED else int(size) // MIB


def _divisions(reported: Mapping[str, Any], asked: tuple[int, ...]) -> tuple[int, ...]:
    """Divisions by power of two, as reported under keys of `1` to `32768` (MB)."""
    table = reported.get("roundup_power2_divisions")
    if not isinstance(table, Mapping):
        return asked
    values = (int(table.get(str(1 << index), 0)) for index in range(ROUNDUP_INTERVALS))
    return tuple(0 if value == 1 else value for value in values)
