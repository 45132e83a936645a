"""Runner: the one protocol behind which a GPU, a replay and a test double look alike to the study loop."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from autotune.measurement import Environment, Measurement, Obtained
from autotune.settings import AllocatorSettings


@dataclass(frozen=True, kw_only=True)
class Job:
    """A script and how each trial runs it."""

    script: Path
    arguments: tuple[str, ...] = ()
    """The script's own arguments."""
    python: str = ""
    """Interpreter that runs the script; empty = the one running autotune."""
    device: int = 0
    """Index of the GPU as CUDA numbers it for this process."""
    warmup_steps: int = 5
    measured_steps: int = 20
    seed: int | None = 0
    """Seeds random, numpy and torch before the script runs; None leaves them alone."""
    timeout_seconds: float = 600.0
    memory_limit_bytes: int | None = None
    directory: Path = Path("autotune-runs")
    """Where the per-trial logs and recordings go."""


class Runner(Protocol):
    """Measures one candidate at a time."""

    obtained: Obtained
    """How this runner's numbers come about."""
    environment: Environment
    """The conditions that all its measurements share."""

    def measure(
        self, settings: AllocatorSettings, *, number: int, measured_steps: int | None = None
    ) -> Measurement:
        """Run one trial; `number` names its log. Failures are outcomes of the Measurement, not exceptions.

        `measured_steps` is how many steps to measure where that is not the job's own number.
        """
        ...

    def close(self) -> None:
        """End every process the runner started. Safe to call twice."""
        ...
