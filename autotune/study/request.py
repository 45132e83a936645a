"""Request: everything asked of `autotune run`, checked as far as possible without starting anything."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, fields, replace
from pathlib import Path

from autotune.allocator.devices import Card
from autotune.allocator.engines import ENGINE_NAMES
from autotune.errors import UsageError
from autotune.settings import NEWEST_KNOWN_TORCH, AllocatorSettings, TorchVersion
from autotune.study.book import SCREEN, check_name
from autotune.study.candidates import environment_settings
from autotune.study.config import StudyFile
from autotune.study.samplers import check_sampler
from autotune.study.space import SearchSpace
from autotune.study.storage import check_storage
from autotune.trial.preflight import check_seed, check_timeout

DEFAULT_ENGINE = "model"
ENGINE_OFF = "off"
"""In place of an engine: no screening, a plain Optuna study."""
CONFIRM_ROUNDS = 3
"""The fewest from which an interval says something."""
MOST = 1_000_000
"""Trials or steps; more would not end."""
RUNS = Path("autotune-runs")
"""Logs and recordings, one folder a study."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to tune and how."""

    script: Path | None = None
    trace: Path | None = None
    args: tuple[str, ...] = ()
    study: str = ""
    """Empty = named after the script or the trace."""
    storage: str
    """URL of the database."""
    trials: int = 60
    memory_limit: int | None = None
    gpu: Card | None = None
    """The GPU that is not here."""
    selected: float | None = None
    """Share of a mask that an estimate takes where only a GPU would know it."""
    warmup: int = 5
    steps: int = 20
    timeout: float = 600.0
    python: str = ""
    devices: tuple[int, ...] = (0,)
    without: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    """Settings to try in any case."""
    torch_version: TorchVersion | None = None
    """Whose rules a replayed trace follows; None = the recording's."""
    partial: bool = False
    """Whether a trace that begins in the middle of a program is good enough."""
    snapshot_device: int | None = None
    """Which GPU of a snapshot of several; None = the busiest."""
    seed: int | None = 0
    engine: str = DEFAULT_ENGINE
    """Which allocator engine screens by replay; `off` = none."""
    sampler: str = "tpe"
    confirm_rounds: int = CONFIRM_ROUNDS
    """Rounds in which the finalists of a measured study are measured again; 0 = none."""
    early_stop: bool = True
    """Whether a measured study ends when nothing is left to gain."""

    @property
    def gpu_total(self) -> int | None:
        """Bytes of the GPU that is not here."""
        return self.gpu.total_bytes if self.gpu else None

    @property
    def name(self) -> str:
        """The study's name."""
        subject = self.script or self.trace or Path("study")
        return self.study or re.sub(r"(\.(py|npz|pickle|pkl|gz))+$", "", subject.name) or subject.name

    @property
    def folder(self) -> Path:
        """Where the study's logs and recordings go; any name gives a harmless folder name."""
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", self.name).strip("-")[:60]
        tail = "" if plain == self.name else f"-{hashlib.sha256(self.name.encode()).hexdigest()[:6]}"
        return RUNS / f"{plain or 'study'}{tail}"

    def check(self, *, stores: bool = True) -> None:
        """Find every mistake that can be found without starting a process or writing a file.

        Args:
            stores: whether a study will be kept, so that the database matters.

        Raises:
            UsageError: the first one, in one sentence.
        """
        self._check_subject()
        self._check_numbers()
        self._check_search()
        check_name(self.name)
        if self.name.endswith(SCREEN):
            raise UsageError(
                f"'{self.name}' is a screening's name, as it ends with {SCREEN}; choose another with --study."
            )
        SearchSpace(
            torch_version=NEWEST_KNOWN_TORCH,
            limited=self.memory_limit is not None,
            without=frozenset(self.without),
        )
        for text in self.settings:
            AllocatorSettings.parse(text)
        environment_settings(None)
        if stores:
            check_storage(self.storage)

    def _check_subject(self) -> None:
        if self.script is None and self.trace is None:
            raise UsageError(
                "There is nothing to tune: name a script with --script, or a trace with --trace."
            )
        if self.script is not None and self.trace is not None:
            raise UsageError("--script and --trace exclude each other; keep one.")
        if self.trace is not None and self.python:
            raise UsageError("--python is for --script; a trace is replayed without any interpreter.")
        if self.trace is not None and self.args:
            raise UsageError(f"A trace takes no arguments ({' '.join(self.args)}); they belong to a script.")
        if self.script is not None and self.torch_version is not None:
            raise UsageError(
                "--torch is for --trace; a script's torch is that of its interpreter (--python)."
            )

    def _check_numbers(self) -> None:
        for name, value, lowest in (
            ("trials", self.trials, 1),
            ("warmup", self.warmup, 0),
            ("steps", self.steps, 1),
            ("confirm-rounds", self.confirm_rounds, 0),
        ):
            if not lowest <= value <= MOST:
                few = "few" if value < lowest else "many"
                said = f"{value:.6g}" if abs(value) < 1e300 else "so large a number"
                raise UsageError(f"--{name} {said} is too {few}; it takes {lowest} to {MOST:,}.")
        check_timeout(self.timeout)
        if self.selected is not None and not 0 <= self.selected <= 1:
            raise UsageError(f"--selected {self.selected:g} is no share; give a number from 0 to 1.")
        check_seed(self.seed)

    def _check_search(self) -> None:
        if self.engine not in (*ENGINE_NAMES, ENGINE_OFF):
            raise UsageError(
                f"'{self.engine}' is no engine; choose {', '.join(ENGINE_NAMES)} or {ENGINE_OFF}."
            )
        check_sampler(self.sampler)

    def completed_from(self, file: StudyFile, *, given: frozenset[str]) -> Request:
        """The same with what a study file says, wherever the command line did not say it (`given`)."""
        named = {"script", "trace"} & given
        values = {item.name: getattr(file, item.name) for item in fields(file)}
        return replace(
            self,
            **{
                name: value
                for name, value in values.items()
                if value is not None and name not in given and not (named and name in ("script", "trace"))
            },
        )
