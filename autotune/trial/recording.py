"""Recording a script's allocations: on its GPU, or without one as an estimate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from autotune.errors import UsageError
from autotune.measurement import Measurement, Obtained
from autotune.settings import AllocatorSettings
from autotune.trial.facts import Facts
from autotune.trial.outcome import measurement_of
from autotune.trial.preflight import is_writable
from autotune.trial.runner import Job
from autotune.trial.worker_runner import Worker, alone_on_gpu, print_progress

DEFAULTS = AllocatorSettings()


def record(
    job: Job,
    facts: Facts,
    trace_file: Path,
    *,
    settings: AllocatorSettings = DEFAULTS,
    device_total: int | None = None,
    say: Callable[[str], None] = print_progress,
) -> Measurement:
    """Run the script once and record its allocations into `trace_file`.

    Without a usable GPU the script runs on the CPU and its tensors stand for the GPU's; the measurement is
    then ESTIMATED, and has no peaks: replay the file for those.

    Args:
        job: what to run.
        facts: of the job's interpreter and GPU.
        trace_file: written whole, or not at all.
        settings: what the allocator runs with while it is recorded.
        device_total: bytes of the GPU that an estimate is for.
        say: told of what a person waits for.

    Returns:
        The run as a Measurement. The file is written if its outcome is COMPLETED, or OUT_OF_MEMORY (up to
        that moment), and not otherwise.

    Raises:
        UsageError: the file cannot be written.
    """
    if trace_file.is_dir() or not is_writable(trace_file.absolute().parent):
        raise UsageError(f"The trace file {trace_file} cannot be written; choose another place with -o.")
    trace_file.parent.mkdir(parents=True, exist_ok=True)
    worker = Worker(job, facts, say)
    log = worker.log("recording.log")
    asked = {"record": str(trace_file.absolute())}
    if device_total is not None and not facts.usable:
        asked["device_total_bytes"] = device_total  # type: ignore[assignment]
    try:
        with alone_on_gpu(job, facts, say):
            answer = worker.run(settings, log=log, **asked)
    finally:
        worker.close()
    return measurement_of(
        answer,
        settings=settings,
        job=job,
        obtained=Obtained.MEASURED if facts.usable else Obtained.ESTIMATED,
        environment=facts.environment,
        log=str(log),
    )
