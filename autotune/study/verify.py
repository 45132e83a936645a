"""Whether what a study claims still holds: its settings and the defaults, run again now, in turn.

Where there is a GPU the script runs on it, also if the study is an estimate. Without one an estimate is made
anew, from the script as it is now. Where a study replayed a trace, nothing can change but the allocator.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune import trace as traces
from autotune.allocator.devices import CARDS, Card
from autotune.errors import UsageError
from autotune.measurement import Environment, Measurement, Obtained
from autotune.report.confirmed import MORE_STEPS, Confirmed, compared, confirmations
from autotune.report.objectives import point
from autotune.report.stored import Conditions
from autotune.report.summary import Summary
from autotune.settings import AllocatorSettings, parse_torch_version
from autotune.study.prepare import ESTIMATE, digest, recorded_estimate
from autotune.study.request import RUNS
from autotune.trial.facts import Facts
from autotune.trial.phantom import DEFAULT
from autotune.trial.preflight import preflight
from autotune.trial.replay_runner import ReplayRunner
from autotune.trial.runner import Job, Runner
from autotune.trial.worker_runner import WorkerRunner
from autotune.units import format_change, format_percent

MEMORY_TOLERATED = 0.01
"""Peak reserved, as a share of the defaults', by which a claim may be missed."""
TIME_TOLERATED = 0.02
"""Step time, as a share of the defaults', by which a claim may be missed beyond noise."""

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What settings are said to do, relative to the defaults."""

    settings: AllocatorSettings
    memory: float | None
    """Peak reserved as a ratio; None where the defaults do not run, so that running is the claim."""
    seconds: float | None
    """Step time as a ratio; None where it is not known."""
    times_steps: int = 1
    """How many times the steps of a trial it was measured with: a script that grows needs as many again."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What came of it."""

    holds: bool
    sentence: str
    found: Confirmed


def claim_of(summary: Summary, settings: str | None) -> Claim:
    """The study's claim for its recommendation, or for settings that it measured or that are new to it.

    New settings are claimed to save nothing and to cost nothing.

    Raises:
        UsageError: nothing has completed, or the defaults are all that is recommended.
        SettingsError: the settings are not legal.
    """
    if settings is None:
        if summary.recommended is None or not summary.recommended.completed:
            raise UsageError(
                f"Nothing has completed in study '{summary.study}', so it claims nothing; "
                "name settings with --settings."
            )
        if not summary.recommended.settings:
            raise UsageError(
                f"Study '{summary.study}' recommends PyTorch's defaults, which claim nothing; "
                "name settings with --settings."
            )
        settings = summary.recommended.settings
    parsed = AllocatorSettings.parse(settings)
    if not str(parsed):
        raise UsageError(
            "PyTorch's defaults claim nothing against themselves; name settings with --settings."
        )
    text = str(parsed)
    confirmed = next((one for one in confirmations(summary.rows) if one.settings == text), None)
    if confirmed is not None and confirmed.memory is not None:
        seconds = confirmed.seconds.ratio if confirmed.seconds else None
        return Claim(settings=parsed, memory=confirmed.memory.ratio, seconds=seconds, times_steps=MORE_STEPS)
    row = next((row for row in summary.rows if row.settings == text and row.completed), None)
    own = point(row) if row else None
    defaults = point(summary.baseline) if summary.baseline else None
    if defaults is None:
        return Claim(settings=parsed, memory=None, seconds=None)
    if own is None:
        return Claim(settings=parsed, memory=1.0, seconds=1.0)
    timed = summary.conditions.obtained is Obtained.MEASURED
    return Claim(
        settings=parsed, memory=own[0] / defaults[0], seconds=own[2] / defaults[2] if timed else None
    )


def runner_of(
    study: str, conditions: Conditions, *, steps: int, python: str, timeout: float, device: int, say: Say
) -> Runner:
    """What measures as the study did; `say` is told what is different today.

    Args:
        study: its name.
        conditions: its conditions.
        steps: measured steps of a run.
        python: interpreter that runs the script; empty = the one running autotune.
        timeout: seconds that a run may take.
        device: index of the GPU.
        say: told in sentences what a person should know.

    Raises:
        UsageError: the script or the trace is gone, or the GPU is not there.
        WorkFailedError: the script could not be recorded.
    """
    if conditions.measured_steps is None and conditions.obtained is not Obtained.MEASURED:
        return _replay_runner(conditions, say)
    if conditions.script is None:
        raise UsageError(f"Study '{study}' does not say which script it measured.")
    script = Path(conditions.script)
    job = Job(
        script=script,
        arguments=conditions.arguments,
        python=python,
        device=device,
        warmup_steps=conditions.warmup_steps or 0,
        measured_steps=steps,
        seed=conditions.seed,
        timeout_seconds=timeout,
        memory_limit_bytes=conditions.memory_limit_bytes,
        directory=RUNS / study / "verify",
    )
    facts = preflight(job)
    if not facts.usable and conditions.obtained is Obtained.MEASURED:
        raise UsageError(
            f"Study '{study}' was measured on {conditions.environment.gpu or 'a GPU'}, and there is none "
            f"here: {facts.why_not}."
        )
    if hashlib.sha256(script.read_bytes()).hexdigest() != conditions.script_sha256:
        say(f"{script.name} has changed since the study.")
    if not facts.usable:
        return _estimate_runner(conditions, job, facts, say)
    if conditions.obtained is Obtained.MEASURED:
        for sentence in _differences(conditions.environment, facts.environment):
            say(sentence)
    else:
        say("The study is an estimate; here is a GPU, so the script runs on it.")
    return WorkerRunner(job, facts, say)


def measure(
    runner: Runner,
    settings: AllocatorSettings,
    *,
    rounds: int,
    steps: int | None,
    heard: Callable[[int, Measurement], None],
) -> Confirmed:
    """The defaults and the settings in turn, `rounds` times; `heard` is told of each run."""
    runs: dict[str, list[Measurement]] = {"": [], str(settings): []}
    for number in range(2 * rounds):
        chosen = settings if number % 2 else AllocatorSettings()
        found = runner.measure(chosen, number=number, measured_steps=steps)
        runs[str(chosen)].append(found)
        heard(number, found)
    return compared(str(settings), runs[""], runs[str(settings)])


def rounds_of(runner: Runner, rounds: int) -> int:
    """How many rounds make sense: replays of one recording do not differ."""
    return rounds if runner.obtained is Obtained.MEASURED else 1


def judge(claim: Claim, found: Confirmed) -> Verdict:
    """Whether the claim holds.

    It does if every run under the settings completed; if peak reserved, relative to the defaults', is not
    more than 1 % of theirs above the claim; and if step time is not beyond noise (the lower end of the
    interval) more than 2 % of theirs above the claim, or above their own where the claim is a gain.
    """
    problems = []
    if found.failures:
        problems.append(f"{found.failures} of {found.rounds} runs under the settings did not complete")
    memory = _ratio(found.reference_bytes, found.peak_reserved_bytes)
    if claim.memory is not None and memory is not None and memory > claim.memory + MEMORY_TOLERATED:
        problems.append(
            f"peak reserved changes by {format_change(memory, 1)}, claimed {format_change(claim.memory, 1)}"
        )
    if claim.seconds is not None and found.seconds is not None:
        allowed = max(claim.seconds, 1.0) + TIME_TOLERATED
        if found.seconds.low > allowed:
            problems.append(
                f"step time changes by at least {format_change(found.seconds.low, 1)}, allowed are "
                f"{format_percent(allowed - 1)}"
            )
    text = "The claim holds." if not problems else f"The claim no longer holds: {'; '.join(problems)}."
    return Verdict(holds=not problems, sentence=text, found=found)


def _ratio(references: Sequence[int], values: Sequence[int]) -> float | None:
    return statistics.median(values) / statistics.median(references) if references and values else None


def _estimate_runner(conditions: Conditions, job: Job, facts: Facts, say: Say) -> Runner:
    """Replays of the script as it is now, recorded without a GPU.

    Raises:
        WorkFailedError: it could not be recorded.
    """
    environment, path = conditions.environment, job.directory / ESTIMATE
    name, total = environment.gpu or DEFAULT.name, environment.device_total_bytes or DEFAULT.total_bytes
    known = next((one for one in CARDS if (one.name, one.total_bytes) == (name, total)), None)
    say("Recording the script again, without a GPU.")
    card = known or Card(name=name, total_bytes=total)
    return ReplayRunner(
        recorded_estimate(job, facts, path, card=card, selected=None, say=say),
        torch_version=parse_torch_version(facts.torch) if facts.torch else None,
        memory_limit=conditions.memory_limit_bytes,
        device_total=total,
        warmup_steps=job.warmup_steps,
    )


def _replay_runner(conditions: Conditions, say: Say) -> Runner:
    if conditions.trace is None or not Path(conditions.trace).is_file():
        raise UsageError(
            f"The study's trace {conditions.trace or ''} is gone, so there is nothing to replay."
        )
    trace = traces.load(Path(conditions.trace), partial=True)  # the digest tells whether it is the same
    if digest(trace) != conditions.trace_sha256:
        say(f"{conditions.trace} is not the trace that the study was made with.")
    torch = conditions.environment.torch
    return ReplayRunner(
        trace,
        torch_version=parse_torch_version(torch) if torch else None,
        memory_limit=conditions.memory_limit_bytes,
        device_total=conditions.environment.device_total_bytes,
        warmup_steps=conditions.warmup_steps or 0,
    )


def _differences(before: Environment, now: Environment) -> list[str]:
    return [
        f"The {name} is another one than in the study ({getattr(before, field)}; now {getattr(now, field)})."
        for name, field in (("GPU", "gpu"), ("torch", "torch"), ("driver", "driver"))
        if getattr(before, field) != getattr(now, field)
    ]
