"""Before the first trial: record the program once, screen by replay, and plan the trials by the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from optuna.storages import RDBStorage

from autotune import trace as traces
from autotune.allocator.selfcheck import self_check
from autotune.errors import AutotuneError
from autotune.measurement import Obtained, Outcome
from autotune.report.pace import pace_of
from autotune.report.stored import Conditions, Role
from autotune.settings import AllocatorSettings
from autotune.study.book import shown
from autotune.study.candidates import Candidate, candidate
from autotune.study.finalists import NO_NOISE, Noise, finalists, front_of, in_order
from autotune.study.guide import Guide
from autotune.study.loop import Plan
from autotune.study.predict import Prediction, Predictor
from autotune.study.prepare import (
    Say,
    Subject,
    digest,
    earlier_recording,
    recorded_seconds,
    recorded_steps,
    trace_notes,
)
from autotune.study.request import ENGINE_OFF
from autotune.study.screen import Heard, screen
from autotune.study.screened import Screened, load, screened_trace_digest, store
from autotune.study.space import SearchSpace
from autotune.study.split_sizes import split_sizes
from autotune.study.storage import database_errors
from autotune.trace import Trace
from autotune.trial.recording import record
from autotune.trial.replay_runner import ReplayRunner
from autotune.trial.runner import Runner
from autotune.units import format_bytes, format_change, format_seconds

SCREENED_SHARE = 1 / 3
"""Share of the trials that members of the predicted front get."""
NOISE_SHARE = 0.01
"""Of the recorded run's time: smaller differences in driver time cannot be measured."""
RECORDING = "recording.npz"


def guided(
    plan: Plan,
    subject: Subject,
    conditions: Conditions,
    runner: Runner,
    storage: RDBStorage,
    *,
    say: Say,
    heard: Heard = lambda done, most: None,
) -> Plan:
    """The plan, led by predictions; the same plan where there is no trace, or no trial left to choose.

    A screening that the database has already is used again, so that a study that goes on goes on as it would
    have.

    Args:
        plan: what would be done without predictions.
        subject: what is tuned.
        conditions: of the study.
        runner: measures the study's trials.
        storage: where the study is kept.
        say: told in sentences what a person waits for, and what was found.
        heard: told how many settings are replayed, of how many.

    Raises:
        StudyError: the screening cannot be kept.
    """
    folklore = [one for one in plan.first if one.role is Role.FOLKLORE]
    baseline = [one for one in plan.first if one.role not in (Role.FOLKLORE, Role.SAMPLED)]
    if subject.request.engine == ENGINE_OFF or plan.trials <= len(baseline):
        return plan
    trace = (
        runner.trace
        if isinstance(runner, ReplayRunner)
        else _recording(subject, screened_trace_digest(storage, subject.request.name), say)
    )
    if trace is None:
        return plan
    predictor = _predictor(subject, conditions, trace)
    space = plan.space
    if space.offers("max_split_size_mb"):
        space = replace(space, split_sizes_mb=split_sizes(predictor, space.lowest_split_mb))
    screened_under = _conditions(subject, conditions, predictor)
    anchors = [one.settings for one in (*baseline, *folklore)]
    with database_errors(shown(storage)):
        screened = load(storage, subject.request.name, screened_under)
    if screened is None:
        fresh = _screened(predictor, space, anchors, plan.seed, heard)
        with database_errors(shown(storage)):
            store(storage, subject.request.name, screened_under, space, fresh)
            # Read back: a study that goes on must find exactly what it began with.
            screened = load(storage, subject.request.name, screened_under)
        assert screened is not None
    say(_sentence(screened, predictor))
    check = self_check(trace)
    if check.trusted is False:
        say(check.sentence())
    guide = Guide(predictor=predictor, screened=screened, trusted=check.trusted is not False)
    members = _candidates(plan, guide, space, baseline, conditions.obtained, screened_under)
    # What promises most comes before what forums recommend, so that a few trials are enough.
    return replace(plan, space=space, first=[*baseline, *members, *folklore], guide=guide)


def _predictor(subject: Subject, conditions: Conditions, trace: Trace) -> Predictor:
    return Predictor(
        trace,
        torch_version=subject.torch_version,
        memory_limit=subject.request.memory_limit,
        device_total=conditions.environment.device_total_bytes,
        warmup_steps=subject.request.warmup,
        engine=subject.request.engine,
    )


def _screened(
    predictor: Predictor,
    space: SearchSpace,
    anchors: Sequence[AllocatorSettings],
    seed: int,
    heard: Heard,
) -> Screened:
    screening = screen(predictor, space, anchors=anchors, seed=seed, heard=heard)
    kept = finalists(predictor, space, screening, anchors=anchors)
    return Screened(
        num_settings=screening.num_settings,
        num_behaviours=len(screening.classes),
        members=tuple(kept),
    )


def _conditions(subject: Subject, conditions: Conditions, predictor: Predictor) -> Conditions:
    """The study's conditions, as they hold for its replays."""
    if conditions.obtained is not Obtained.MEASURED:
        return conditions
    return replace(
        conditions,
        obtained=predictor.obtained,
        trace=str((subject.request.folder / RECORDING).absolute()),
        trace_sha256=digest(predictor.trace),
        recorded_seconds=recorded_seconds(predictor.trace, subject.request.warmup),
        recorded_steps=recorded_steps(predictor.trace, subject.request.warmup),
        notes=trace_notes(predictor.trace, subject.request),
    )


def _candidates(
    plan: Plan,
    guide: Guide,
    space: SearchSpace,
    baseline: Sequence[Candidate],
    obtained: Obtained,
    recorded: Conditions,
) -> list[Candidate]:
    """Members of the predicted front to try, the most promising first, as many as their share allows."""
    predictor = guide.predictor
    tried = {found.behaviour for found in predictor.predict_many([one.settings for one in baseline])}
    noise = NO_NOISE
    if obtained is Obtained.MEASURED:
        noise = Noise(seconds=NOISE_SHARE * (recorded.recorded_seconds or 0.0))
    ordered = in_order(
        guide.screened.members,
        predictor.predict(AllocatorSettings()),
        tried=tried,
        limited=plan.space.limited,
        noise=noise,
        pace=pace_of(recorded),
    )
    most = min(max(round(SCREENED_SHARE * plan.trials), 1), plan.trials - len(baseline))
    return [candidate(space, Role.SCREENED, found.settings) for found in ordered[:most]]


def _recording(subject: Subject, known: str | None, say: Say) -> Trace | None:
    """The program's trace, recorded once; None, and a sentence, where it cannot be recorded."""
    path = subject.request.folder / RECORDING
    earlier = earlier_recording(path, known)
    if earlier is not None:
        return earlier
    try:
        say("Recording the script's allocations, once, to screen settings by replay.")
        return _record(subject, path, say)
    except AutotuneError as error:
        say(f"No screening, as the script could not be recorded: {error}")
        return None


def _record(subject: Subject, path: Path, say: Say) -> Trace:
    """Record without the memory limit, so that the whole program is seen; if need be in less memory.

    Raises:
        AutotuneError: it cannot be recorded.
    """
    assert subject.job is not None and subject.facts is not None
    job = replace(subject.job, memory_limit_bytes=None)
    measurement = record(job, subject.facts, path, say=say)
    if measurement.outcome is Outcome.OUT_OF_MEMORY and "expandable_segments" not in subject.request.without:
        settings = AllocatorSettings(expandable_segments=True)
        measurement = record(job, subject.facts, path, settings=settings, say=say)
    if measurement.outcome not in (Outcome.COMPLETED, Outcome.OUT_OF_MEMORY):
        raise AutotuneError(measurement.why)
    trace = traces.load(path)
    seconds = (measurement.startup_seconds or 0) + (measurement.script_seconds or 0)
    say(f"Recorded {trace.num_operations:,} allocations and frees in {format_seconds(seconds)}.")
    return trace


def _sentence(screened: Screened, predictor: Predictor) -> str:
    counts = f"{screened.num_behaviours:,} of {screened.num_settings:,} settings behave differently"
    best: Sequence[Prediction] = front_of(screened.members)
    if not best:
        live = format_bytes(predictor.trace.peak_requested_bytes)
        return f"Screened: {counts}, and none fits; live tensors alone take {live} at their peak."
    defaults, least = predictor.predict(AllocatorSettings()), best[0]
    change = f" ({format_change(least.memory, defaults.memory)})" if defaults.completes else ""
    return (
        f"Screened: {counts}; the least peak reserved among them would be "
        f"{format_bytes(least.memory)}{change}."
    )
