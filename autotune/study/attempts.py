"""Running a script with one value of an argument: on the GPU, or as an estimate on the CPU."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from autotune import trace as traces
from autotune.measurement import Environment, Measurement, Obtained, Outcome
from autotune.settings import AllocatorSettings
from autotune.study.largest import Attempt, with_value
from autotune.study.prepare import Say, Subject
from autotune.trial.recording import record
from autotune.trial.replay_runner import ReplayRunner
from autotune.trial.worker_runner import WorkerRunner


@dataclass(frozen=True, kw_only=True)
class Attempts:
    """Ways to try a value."""

    attempt: Attempt
    """What counts: a real run, or without a GPU an estimate."""
    predict: Attempt | None
    """Replays of one recorded run a value, whatever the settings; None where `attempt` is that already."""
    obtained: Obtained
    environment: Environment


@contextlib.contextmanager
def attempts(subject: Subject, argument: str, say: Say) -> Iterator[Attempts]:
    """What runs the script with a value.

    Args:
        subject: a script that was looked at.
        argument: such as `--batch-size {}`.
        say: told what a person waits for.
    """
    assert subject.job is not None and subject.facts is not None
    say = _each_once(say)
    environment, replayed = subject.conditions.environment, _replays(subject, argument, say)
    if not subject.facts.usable:
        yield Attempts(attempt=replayed, predict=None, obtained=Obtained.ESTIMATED, environment=environment)
        return
    runner = WorkerRunner(subject.job, subject.facts, say)
    count = itertools.count()
    own = subject.job.arguments

    def attempt(settings: AllocatorSettings, value: int) -> Measurement:
        arguments = (*own, *with_value(argument, value))
        return runner.measure(settings, number=next(count), arguments=arguments)

    with contextlib.closing(runner):
        yield Attempts(attempt=attempt, predict=replayed, obtained=Obtained.MEASURED, environment=environment)


def _each_once(say: Say) -> Say:
    """Every sentence once: what is true of one recording, such as that no GPU is there, is true of all."""
    told: set[str] = set()

    def say_new(sentence: str) -> None:
        if sentence not in told:
            told.add(sentence)
            say(sentence)

    return say_new


def _replays(subject: Subject, argument: str, say: Say) -> Attempt:
    """Records the script once a value; every settings' answer is then a replay within the GPU's memory."""
    recorded: dict[int, ReplayRunner | Measurement] = {}

    def runner(value: int) -> ReplayRunner | Measurement:
        assert subject.job is not None and subject.facts is not None
        request, words = subject.request, with_value(argument, value)
        say(f"Recording with {' '.join(words)}.")
        job = replace(subject.job, arguments=(*subject.job.arguments, *words), memory_limit_bytes=None)
        file = request.folder / f"value-{value}.npz"
        # On a GPU with the settings that fit most.
        settings = AllocatorSettings(expandable_segments=subject.facts.usable or None)
        found = record(
            job, subject.facts, file, settings=settings, card=request.gpu, selected=request.selected, say=say
        )
        if found.outcome is not Outcome.COMPLETED:
            return found
        return ReplayRunner(
            traces.load(file),
            torch_version=subject.torch_version,
            memory_limit=request.memory_limit,
            device_total=subject.conditions.environment.device_total_bytes,
            warmup_steps=request.warmup,
        )

    def attempt(settings: AllocatorSettings, value: int) -> Measurement:
        if value not in recorded:
            recorded[value] = runner(value)
        found = recorded[value]
        return found if isinstance(found, Measurement) else found.measure(settings, number=value)

    return attempt
