"""Running a script with one value of an argument: on the GPU, or as an estimate on the CPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from autotune import trace as traces
from autotune.measurement import Environment, Measurement, Obtained, Outcome
from autotune.settings import AllocatorSettings
from autotune.study.largest import Attempt, with_value
from autotune.study.prepare import Say, Subject
from autotune.trial.recording import record
from autotune.trial.replay_runner import ReplayRunner
from autotune.trial.worker_runner import WorkerRunner


@contextlib.contextmanager
def attempts(subject: Subject, argument: str, say: Say) -> Iterator[tuple[Attempt, Obtained, Environment]]:
    """What runs the script with a value, how its numbers come about, and on what.

    Args:
        subject: a script that was looked at.
        argument: such as `--batch-size {}`.
        say: told what a person waits for.
    """
    assert subject.job is not None and subject.facts is not None
    if not subject.facts.usable:
        yield _estimates(subject, argument, say), Obtained.ESTIMATED, subject.conditions.environment
        return
    runner = WorkerRunner(subject.job, subject.facts, say)
    count = iter(range(1_000_000))
    own = subject.job.arguments

    def attempt(settings: AllocatorSettings, value: int) -> Measurement:
        arguments = (*own, *with_value(argument, value))
        return runner.measure(settings, number=next(count), arguments=arguments)

    with contextlib.closing(runner):
        yield attempt, Obtained.MEASURED, subject.conditions.environment


def _estimates(subject: Subject, argument: str, say: Say) -> Attempt:
    """Records the script once a value; every settings' answer is then a replay within the GPU's memory."""
    recorded: dict[int, ReplayRunner | Measurement] = {}

    def runner(value: int) -> ReplayRunner | Measurement:
        assert subject.job is not None and subject.facts is not None
        say(f"Recording with {' '.join(with_value(argument, value))}.")
        words = (*subject.job.arguments, *with_value(argument, value))
        job = replace(subject.job, arguments=words, memory_limit_bytes=None)
        file = subject.request.folder / f"value-{value}.npz"
        total = subject.conditions.environment.device_total_bytes
        request = subject.request
        found = record(job, subject.facts, file, card=request.gpu, selected=request.selected, say=say)
        if found.outcome is not Outcome.COMPLETED:
            return found
        return ReplayRunner(
            traces.load(file),
            torch_version=subject.torch_version,
            memory_limit=request.memory_limit,
            device_total=total,
            warmup_steps=request.warmup,
        )

    def attempt(settings: AllocatorSettings, value: int) -> Measurement:
        if value not in recorded:
            recorded[value] = runner(value)
        found = recorded[value]
        return found if isinstance(found, Measurement) else found.measure(settings, number=value)

    return attempt
