"""From a request to something that can run: the subject looked at, its conditions, its runner, its plan."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autotune import trace as traces
from autotune.allocator.conditions import Conditions as ReplayConditions
from autotune.allocator.devices import Card
from autotune.allocator.result import TAKEN_FOR_H200
from autotune.allocator.selfcheck import self_check
from autotune.errors import UsageError, WorkFailedError
from autotune.measurement import Environment, Obtained, Outcome
from autotune.report.confirmed import GROWN
from autotune.report.doubts import recording_ended_early
from autotune.report.stored import Conditions
from autotune.settings import AllocatorSettings, TorchVersion, parse_torch_version
from autotune.study.baselines import BASELINES
from autotune.study.candidates import environment_settings, first_candidates
from autotune.study.loop import Plan
from autotune.study.request import DEFAULT_ENGINE, ENGINE_OFF, Request
from autotune.study.space import SearchSpace
from autotune.trace import Trace
from autotune.trial.estimate_runner import EstimateRunner
from autotune.trial.facts import Facts
from autotune.trial.phantom import DEFAULT
from autotune.trial.preflight import preflight
from autotune.trial.recording import record
from autotune.trial.replay_runner import ReplayRunner, steady_state
from autotune.trial.runner import Job, Runner
from autotune.trial.worker_runner import WorkerRunner
from autotune.units import format_bytes

Say = Callable[[str], None]

ESTIMATE = "estimate.npz"
"""The recording that an estimated study replays, in the study's folder."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is tuned, looked at: a trace, or a script with its interpreter."""

    request: Request
    torch_version: TorchVersion
    conditions: Conditions
    """As far as they are known before a recording."""
    trace: Trace | None = None
    job: Job | None = None
    facts: Facts | None = None

    @property
    def needs_recording(self) -> bool:
        """True for a script without a GPU to run it on."""
        return self.facts is not None and not self.facts.usable


def look_at(request: Request) -> Subject:
    """Load the trace, or check the script and ask its interpreter about torch and GPU.

    Raises:
        UsageError: it cannot be used, or what was asked does not fit it.
    """
    subject = _trace_subject(request, request.trace) if request.trace else _script_subject(request)
    total, limit = subject.conditions.environment.device_total_bytes, request.memory_limit
    if limit and total and limit > total:
        raise UsageError(
            f"A memory limit of {format_bytes(limit)} is above the GPU's {format_bytes(total)}; lower it."
        )
    for text in request.settings:
        AllocatorSettings.parse(text).validate(subject.torch_version)
    environment_settings(subject.torch_version)
    return subject


def plan_for(subject: Subject) -> Plan:
    """The search space of this torch, and the trials that come first."""
    request = subject.request
    space = SearchSpace(
        torch_version=subject.torch_version,
        limited=request.memory_limit is not None,
        without=frozenset(request.without),
    )
    given = [AllocatorSettings.parse(text) for text in request.settings]
    first = first_candidates(space, environment=environment_settings(subject.torch_version), given=given)
    return Plan(
        space=space,
        first=first,
        trials=request.trials,
        seed=request.seed or 0,
        sampler=request.sampler,
        baselines=BASELINES if subject.conditions.obtained is Obtained.MEASURED else 1,
        early_stop=request.early_stop and subject.conditions.obtained is Obtained.MEASURED,
    )


def runner_for(subject: Subject, stored: Conditions | None, say: Say) -> tuple[Runner, Conditions]:
    """What measures the trials, and the conditions that they share.

    Args:
        subject: what is tuned.
        stored: conditions of the study, if it exists; its recording is used again where it still fits.
        say: told what a person waits for.

    Raises:
        WorkFailedError: the script could not be recorded.
    """
    if subject.trace is not None:
        options = _replay_options(subject, subject.conditions)
        return ReplayRunner(subject.trace, **options), subject.conditions
    assert subject.job is not None and subject.facts is not None
    if subject.facts.usable:
        return WorkerRunner(subject.job, subject.facts, say), subject.conditions
    path = subject.request.folder / ESTIMATE
    recorded = earlier_recording(path, stored.trace_sha256 if stored else None) or _record(subject, path, say)
    return _estimated(subject, recorded, path, say)


def _estimated(subject: Subject, recorded: Trace, path: Path, say: Say) -> tuple[Runner, Conditions]:
    """Trials that replay what was recorded without a GPU; a longer recording lies beside it."""
    request = subject.request
    conditions = replace(
        subject.conditions,
        trace=str(path.absolute()),
        trace_sha256=digest(recorded),
        recorded_steps=recorded_steps(recorded, request.warmup),
        notes=(
            *_assumed_card(request),
            *recording_ended_early(len(recorded.step_ends), request.warmup, request.steps),
            *recorded.recording.notes,
        ),
    )

    def longer(steps: int) -> Trace:
        return _record(subject, path.with_name(f"estimate-{steps}-steps.npz"), say, steps=steps)

    return EstimateRunner(recorded, record=longer, **_replay_options(subject, conditions)), conditions


def _assumed_card(request: Request) -> tuple[str, ...]:
    if request.gpu is not None:
        return ()
    size = format_bytes(DEFAULT.total_bytes)
    return (f"No --gpu was named, so this is for a GPU of {size}; name yours, or its size.",)


def digest(trace: Trace) -> str:
    """What a trace asks of an allocator, as SHA-256; the times of its operations do not count."""
    found = hashlib.sha256(repr((trace.num_preexisting, trace.step_ends)).encode())
    for column in (trace.is_alloc, trace.block, trace.size, trace.stream, trace.pool):
        found.update(column.tobytes())
    return found.hexdigest()


def _trace_subject(request: Request, path: Path) -> Subject:
    trace = traces.load(path, device=request.snapshot_device, partial=request.partial)
    if not trace.num_operations:
        raise UsageError(f"{path} holds no allocations, so there is nothing to replay.")
    recording = trace.recording
    replayed = ReplayConditions.of(trace, request.memory_limit, request.gpu_total, request.torch_version)
    conditions = Conditions(
        obtained=Obtained.ESTIMATED if recording.estimated else Obtained.REPLAYED,
        script=recording.script,
        trace=str(path.absolute()),
        trace_sha256=digest(trace),
        environment=Environment(
            gpu=recording.gpu,
            torch=_followed_torch(request, recording.torch, replayed.torch_version),
            device_total_bytes=replayed.device_total,
        ),
        memory_limit_bytes=request.memory_limit,
        warmup_steps=request.warmup,
        without=tuple(sorted(set(request.without))),
        recorded_seconds=recorded_seconds(trace, request.warmup),
        recorded_steps=recorded_steps(trace, request.warmup),
        notes=trace_notes(trace, request),
    )
    return Subject(request=request, torch_version=replayed.torch_version, conditions=conditions, trace=trace)


def _script_subject(request: Request) -> Subject:
    assert request.script is not None
    job = Job(
        script=request.script,
        arguments=request.args,
        python=request.python,
        device=request.devices[0],
        warmup_steps=request.warmup,
        measured_steps=request.steps,
        seed=request.seed,
        timeout_seconds=request.timeout,
        memory_limit_bytes=request.memory_limit,
        directory=request.folder,
    )
    facts = preflight(job)
    if facts.usable and request.gpu_total is not None:
        raise UsageError(
            "--gpu stands for a GPU that is not here, and one is; emulate a smaller one with --memory-limit."
        )
    environment = facts.environment
    if not facts.usable:
        card = request.gpu or DEFAULT
        environment = replace(environment, gpu=card.name, device_total_bytes=card.total_bytes)
    conditions = Conditions(
        obtained=Obtained.MEASURED if facts.usable else Obtained.ESTIMATED,
        script=str(request.script.absolute()),
        script_sha256=hashlib.sha256(request.script.read_bytes()).hexdigest(),
        arguments=request.args,
        environment=environment,
        memory_limit_bytes=request.memory_limit,
        warmup_steps=request.warmup,
        measured_steps=request.steps,
        seed=request.seed,
        without=tuple(sorted(set(request.without))),
    )
    version = parse_torch_version(facts.torch or "")
    return Subject(request=request, torch_version=version, conditions=conditions, job=job, facts=facts)


def _replay_options(subject: Subject, conditions: Conditions) -> dict[str, Any]:
    engine = subject.request.engine
    return {
        "torch_version": subject.torch_version,
        "memory_limit": subject.request.memory_limit,
        "device_total": conditions.environment.device_total_bytes,
        "warmup_steps": subject.request.warmup,
        "engine": DEFAULT_ENGINE if engine == ENGINE_OFF else engine,
    }


def _record(subject: Subject, path: Path, say: Say, *, steps: int | None = None) -> Trace:
    assert subject.job is not None and subject.facts is not None
    request = subject.request
    job = replace(subject.job, measured_steps=steps or subject.job.measured_steps)
    return recorded_estimate(job, subject.facts, path, card=request.gpu, selected=request.selected, say=say)


def recorded_estimate(
    job: Job, facts: Facts, path: Path, *, card: Card | None, selected: float | None, say: Say
) -> Trace:
    """The script's allocations, recorded without a GPU; arguments as `record` takes them.

    Raises:
        WorkFailedError: it could not be recorded.
    """
    # What fits is for the replays to say, under each setting.
    unlimited = replace(job, memory_limit_bytes=None)
    measurement = record(unlimited, facts, path, card=card, selected=selected, say=say)
    if measurement.outcome is not Outcome.COMPLETED:
        raise WorkFailedError(f"The script could not be recorded: {measurement.why}")
    return traces.load(path)


def earlier_recording(path: Path, trace_sha256: str | None) -> Trace | None:
    """The recording with this digest, if the file still is that one."""
    if trace_sha256 is None or not path.is_file():
        return None
    try:
        trace = traces.load(path)
    except UsageError:
        return None
    return trace if digest(trace) == trace_sha256 else None


def recorded_seconds(trace: Trace, warmup: int) -> float | None:
    """Time from the end of warm-up to the end of a recording made on a GPU."""
    if trace.recording.estimated or not trace.time_us.any():
        return None
    _, first, _ = steady_state(trace, warmup)
    return float(trace.time_us[-1] - trace.time_us[min(first, len(trace.time_us) - 1)]) / 1e6


def recorded_steps(trace: Trace, warmup: int) -> int | None:
    """Steps after warm-up; None where the trace does not tell steps."""
    if not trace.step_ends:
        return None
    left_out, _, _ = steady_state(trace, warmup)
    return len(trace.step_ends) - left_out


def _followed_torch(request: Request, recorded: str | None, followed: TorchVersion) -> str:
    """The recording's torch in full where its rules are followed, else the release whose rules are."""
    if recorded is not None and request.torch_version is None:
        return recorded
    return ".".join(map(str, followed))


def trace_notes(trace: Trace, request: Request) -> tuple[str, ...]:
    """What belongs on every report of replays of this trace."""
    recording = trace.recording
    if recording.estimated:
        return (*growth_note(trace), *recording.notes)
    unnamed = recording.device_total_bytes is None and request.gpu_total is None
    taken_for = [TAKEN_FOR_H200] if unnamed else []
    return (self_check(trace).sentence(), *growth_note(trace), *taken_for, *recording.notes)


def growth_note(trace: Trace) -> tuple[str, ...]:
    """Whether the recording may be too short to show the peak: live memory peaked in its second half only."""
    ends = trace.step_ends
    if len(ends) < 4:
        return ()
    live = trace.live_bytes
    before = int(live[: ends[len(ends) // 2 - 1]].max())
    peak = int(live.max())
    if peak <= GROWN * before:
        return ()
    return (
        f"In the first half of the {len(ends)} recorded steps live tensors took {format_bytes(before)} at "
        f"their peak, in all of them {format_bytes(peak)}: more steps may take more still, so record more "
        "(--steps).",
    )
