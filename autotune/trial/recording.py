"""Recording a script's allocations: on its GPU, or without one as an estimate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from autotune.allocator.devices import Card
from autotune.errors import UsageError
from autotune.measurement import Measurement, Obtained
from autotune.settings import AllocatorSettings
from autotune.trace.archive import looks_like_archive
from autotune.trial.estimate import estimate
from autotune.trial.facts import Facts
from autotune.trial.outcome import measurement_of
from autotune.trial.preflight import is_writable
from autotune.trial.runner import Job
from autotune.trial.worker_runner import Worker, print_progress, shared_gpu

DEFAULTS = AllocatorSettings()
LOG = "recording.log"


def check_place(trace_file: Path, *, replace: bool) -> None:
    """Refuse a place where no recording can be written, or where one is that may not be replaced.

    Raises:
        UsageError: it cannot be written, something else is there, or an earlier recording without `replace`.
    """
    try:
        there = trace_file.exists()
        regular = trace_file.is_file() or not there  # no device or pipe: the file is renamed into place
    except OSError:  # a name that is too long
        there, regular = False, False
    if not regular or trace_file.is_symlink() or not is_writable(trace_file.absolute().parent):
        raise UsageError(f"The trace file {trace_file} cannot be written; choose another place with -o.")
    if not there or not trace_file.stat().st_size:
        return
    if not looks_like_archive(trace_file):
        raise UsageError(f"{trace_file} exists already and is no trace; choose another place with -o.")
    if not replace:
        raise UsageError(f"{trace_file} exists already; replace it with --force, or name another with -o.")


def record(
    job: Job,
    facts: Facts,
    trace_file: Path,
    *,
    settings: AllocatorSettings = DEFAULTS,
    card: Card | None = None,
    selected: float | None = None,
    say: Callable[[str], None] = print_progress,
) -> Measurement:
    """Run the script once and record its allocations into `trace_file`.

    Without a usable GPU it runs on a phantom one, or on the CPU where that does not work (`estimate`); the
    measurement is then ESTIMATED and tells no step times.

    Args:
        job: what to run.
        facts: of the job's interpreter and GPU.
        trace_file: written whole, or not at all.
        settings: what the allocator runs with while it is recorded.
        card: the GPU that an estimate is for.
        selected: share of a mask that an estimate takes where only a GPU would know it.
        say: told of what a person waits for.

    Returns:
        The run as a Measurement. The file is written if its outcome is COMPLETED, or OUT_OF_MEMORY (up to
        that moment), and not otherwise.

    Raises:
        UsageError: the file cannot be written.
    """
    check_place(trace_file, replace=True)
    trace_file.parent.mkdir(parents=True, exist_ok=True)
    target = str(trace_file.absolute())
    if not facts.usable:
        answer = estimate(
            job, facts, settings, target, card=card, selected=selected, log=LOG, say=say
        )  # fmt: skip
        answer = {
            **answer,
            "boundaries": [{**step, "seconds": 0.0} for step in answer.get("boundaries") or []],
        }
        found = measurement_of(
            answer,
            settings=settings,
            job=job,
            obtained=Obtained.ESTIMATED,
            environment=facts.environment,
            log=str(job.directory / LOG),
        )
        return replace(found, step_seconds=())
    worker = Worker(job, facts, say)
    try:
        with shared_gpu(job, facts).alone(say):
            answer = worker.run(settings, log=worker.log(LOG), record=target)
    finally:
        worker.close()
    return measurement_of(
        answer,
        settings=settings,
        job=job,
        obtained=Obtained.MEASURED,
        environment=facts.environment,
        log=str(job.directory / LOG),
    )
