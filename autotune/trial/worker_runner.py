"""WorkerRunner: measures by running the script on the GPU, one trial at a time."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from autotune.errors import UsageError
from autotune.measurement import Environment, Measurement, Obtained, Outcome
from autotune.settings import AllocatorSettings
from autotune.trial.facts import Facts, visible_device
from autotune.trial.gpu import SharedGpu
from autotune.trial.launcher import Launcher, LauncherDied
from autotune.trial.outcome import measurement_of
from autotune.trial.phantom import Phantom
from autotune.trial.runner import Job
from autotune.trial.watch import Watch


def print_progress(sentence: str) -> None:
    """Say something to whoever watches."""
    print(f"autotune: {sentence}", file=sys.stderr, flush=True)


class Worker:
    """A launcher that is started when first needed, and replaced when it dies.

    One that died is replaced once by another of its kind, and from then on by one that starts a fresh
    interpreter a trial, in case forking was what killed it.
    """

    def __init__(
        self,
        job: Job,
        facts: Facts,
        say: Callable[[str], None] = print_progress,
        *,
        phantom: Phantom | None = None,
    ) -> None:
        self._job = job
        self._facts = facts
        self._say = say
        self._phantom = phantom
        self._launcher: Launcher | None = None
        self._deaths = 0
        self._said: str | None = None
        self.folder = job.directory

    def log(self, name: str) -> Path:
        """Path of a log file, in a folder that exists."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"The log folder {self.folder} cannot be made: {error.strerror}.") from error
        return self.folder / name

    def run(self, settings: AllocatorSettings, *, log: Path, **asked: Any) -> dict[str, Any]:
        """Run the script once; the worker's answer. A launcher's death is retried, then told as a crash."""
        request = self._request(settings, log=log, **asked)
        reason = ""
        for _ in range(2):
            try:
                return self._started().run(request)
            except LauncherDied as error:
                reason = str(error)
                self._launcher = None
                self._deaths += 1
        return {
            "outcome": Outcome.CRASHED,
            "reason": f"The worker process died twice in a trial ({reason}); see {self.folder}/worker.log.",
        }

    def _started(self) -> Launcher:
        if self._launcher is None:
            self._launcher = Launcher(
                self._facts.python,
                device=self._job.device,
                log=self.log("worker.log"),
                fresh=self._deaths > 1,
                hash_seed=self._job.seed,
                environment=self._phantom.environment if self._phantom else {},
            )
            why_not = self._launcher.why_not_forked
            if why_not and why_not != self._said:
                self._say(f"Every trial starts a fresh Python, which takes seconds more: {why_not}.")
                self._said = why_not
        return self._launcher

    def _request(self, settings: AllocatorSettings, *, log: Path, **asked: Any) -> dict[str, Any]:
        job = self._job
        return {
            "script": str(job.script),
            "arguments": list(job.arguments),
            "seed": job.seed,
            "settings": str(settings),
            "environment": {},
            "memory_limit_bytes": job.memory_limit_bytes,
            # Read only when the allocator is made, which in a forked child is before this option is known.
            "memory_fraction": settings.per_process_memory_fraction,
            "warmup_steps": job.warmup_steps,
            "measured_steps": job.measured_steps,
            "timeout_seconds": job.timeout_seconds,
            "device": "cuda" if self._facts.usable else "phantom" if self._phantom else "cpu",
            "device_total_bytes": self._facts.device_total_bytes,
            "record": None,
            "log": str(log.absolute()),
            "folder": os.getcwd(),
            **asked,
        }

    def close(self) -> None:
        """End every process that was started. Safe to call twice."""
        if self._launcher is not None:
            self._launcher.close()
            self._launcher = None


class WorkerRunner:
    """Runs a job's script on the GPU under given settings. A Runner.

    Args:
        job: what to run.
        facts: of the job's interpreter and GPU.
        say: told once why trials are slow to start, and that it waits for another autotune.

    Raises:
        UsageError: there is no usable GPU.
    """

    obtained = Obtained.MEASURED

    def __init__(self, job: Job, facts: Facts, say: Callable[[str], None] = print_progress) -> None:
        if not facts.usable:
            raise UsageError(f"Nothing can be measured without a GPU: {facts.why_not}.")
        self._job = job
        self._say = say
        self._worker = Worker(job, facts, say)
        self._gpu = shared_gpu(job, facts)
        self.environment: Environment = facts.environment

    def measure(
        self,
        settings: AllocatorSettings,
        *,
        number: int,
        measured_steps: int | None = None,
        arguments: tuple[str, ...] | None = None,
    ) -> Measurement:
        """Run the script once, alone on its GPU; more steps than the job's have as much more time.

        `arguments` take the place of the job's.
        """
        log = self._worker.log(f"trial-{number:03d}.log")
        steps = measured_steps or self._job.measured_steps
        time_share = max(1.0, steps / self._job.measured_steps)
        with self._gpu.alone(self._say):
            before = self._gpu.tenants()
            with Watch(self._gpu) as watch:
                answer = self._worker.run(
                    settings,
                    log=log,
                    arguments=list(self._job.arguments if arguments is None else arguments),
                    measured_steps=steps,
                    timeout_seconds=self._job.timeout_seconds * time_share,
                )
            tenants = dict.fromkeys([*before, *self._gpu.tenants()])
        return measurement_of(
            answer,
            settings=settings,
            job=self._job,
            obtained=self.obtained,
            environment=replace(
                self.environment,
                tenants=tuple(tenants),
                throttled=watch.throttled,
                cpu_busy=watch.cpu_busy,
            ),
            log=str(log),
        )

    def close(self) -> None:
        """End every process that was started. Safe to call twice."""
        self._worker.close()


def shared_gpu(job: Job, facts: Facts) -> SharedGpu:
    """The GPU that a job runs on."""
    return SharedGpu(visible_device(job.device), facts.uuid)
