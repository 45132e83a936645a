"""Measurement: what one trial found, as one versioned JSON document.

Format history:
    1 (2026-12)  first version.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from autotune.documents import from_document
from autotune.errors import as_sentence

FORMAT_VERSION = 1


class Outcome(StrEnum):
    """How a trial ended. A failure is a state with a reason, never a huge number."""

    COMPLETED = "completed"
    OUT_OF_MEMORY = "out_of_memory"
    """The allocator could not serve a request within the memory it may use."""
    CRASHED = "crashed"
    """The script raised, exited early, was killed by a signal, or never began a step."""
    TIMED_OUT = "timed_out"
    REJECTED = "rejected"
    """The settings in effect were not the ones asked for."""

    @property
    def words(self) -> str:
        """The outcome for people: `out of memory`."""
        return self.value.replace("_", " ")


class Obtained(StrEnum):
    """Where a measurement's numbers come from; shown with them, and never passed off as another."""

    MEASURED = "measured"
    """A real run on a GPU."""
    REPLAYED = "replayed"
    """A trace recorded on a GPU, replayed through an allocator engine."""
    ESTIMATED = "estimated"
    """A trace recorded without a GPU, replayed; memory taken inside libraries is missing."""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """The conditions of a measurement. Studies made under different ones are not mixed."""

    gpu: str | None = None
    driver: str | None = None
    torch: str | None = None
    python: str | None = None
    device_total_bytes: int | None = None
    backend: str = "native"
    """Allocator backend in effect."""
    tenants: tuple[str, ...] = ()
    """Other processes that used the GPU during the trial, as `pid name (MiB)`."""
    throttled: tuple[str, ...] = ()
    """Why the GPU lowered its clocks during the trial; empty if it did not, or does not tell."""
    cpu_busy: float | None = None
    """Share of all CPU cores that was busy during the trial, the trial's own work included."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One trial's findings. Fields that a way of obtaining cannot know are None."""

    settings: str
    """Settings asked for, as an environment string."""
    settings_in_effect: str | None = None
    """Settings as the allocator itself reports them."""
    obtained: Obtained
    outcome: Outcome
    reason: str | None = None
    """One sentence on why the outcome is not COMPLETED."""
    log: str | None = None
    """Path of the file with everything the script printed."""
    notes: tuple[str, ...] = ()
    """Sentences that belong next to these numbers, such as why a step is not what one would think."""
    environment: Environment = field(default_factory=Environment)
    memory_limit_bytes: int | None = None

    warmup_steps: int = 0
    step_seconds: tuple[float, ...] = ()
    """Wall-clock seconds of each measured step after warm-up, GPU synchronised at the boundaries."""
    step_peak_reserved_bytes: tuple[int, ...] = ()
    """Reserved bytes at the end of every step, warm-up included."""
    step_alloc_retries: tuple[int, ...] = ()
    """Allocation retries within every step, warm-up included."""
    whole_run_is_one_step: bool = False
    """True when the script neither steps an optimizer nor calls autotune.step()."""

    peak_requested_bytes: int | None = None
    peak_allocated_bytes: int | None = None
    peak_active_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    num_device_alloc: int | None = None
    """Driver allocations of the whole run (cudaMalloc and map calls)."""
    num_device_free: int | None = None
    steady_device_alloc: int | None = None
    """Driver allocations after warm-up."""
    steady_device_free: int | None = None
    steady_retries: int | None = None
    """Allocation retries after warm-up."""
    num_alloc_retries: int | None = None
    num_ooms: int | None = None
    allocator_seconds: float | None = None
    """Replays only: driver time after warm-up, from the calls and a cost table measured on a GPU."""
    smallest_fit_bytes: int | None = None
    """Replays only: the smallest memory limit in which the program completes; None where not sought."""
    may_adapt: bool = False
    """Replays only: memory ran out at what looks like a workspace, so the script may go on."""
    startup_seconds: float | None = None
    """From launching the worker to the script's first line."""
    script_seconds: float | None = None
    """From the script's first line to the worker's answer."""

    @property
    def completed(self) -> bool:
        """Whether the run came to its planned end."""
        return self.outcome is Outcome.COMPLETED

    @property
    def why(self) -> str:
        """Why the run did not complete, and where to read more: whole sentences."""
        why = as_sentence(self.reason or self.outcome.words)
        return f"{why} Everything it printed is in {self.log}." if self.log else why

    @property
    def median_step_seconds(self) -> float | None:
        """Median of the measured steps; None where step time was not measured."""
        return statistics.median(self.step_seconds) if self.step_seconds else None

    @property
    def fragmentation(self) -> float | None:
        """1 − peak allocated / peak reserved."""
        if not self.peak_reserved_bytes or self.peak_allocated_bytes is None:
            return None
        return 1.0 - self.peak_allocated_bytes / self.peak_reserved_bytes

    def to_json(self) -> dict[str, Any]:
        """The JSON document, with its format version."""
        return {"format": FORMAT_VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Measurement:
        """A measurement from its JSON document.

        Raises:
            ValueError: the document is of a newer format, misses a field, or has one of another type.
        """
        if document.get("format") != FORMAT_VERSION:
            raise ValueError(f"measurement format {document.get('format')!r} is not {FORMAT_VERSION}")
        return from_document(cls, document)
