"""Test doubles that many rooms share. A fake runner's numbers are written in its input."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from autotune.measurement import Environment, Measurement, Obtained, Outcome
from autotune.report.stored import Conditions, Role, Row
from autotune.report.summary import Summary, summarise_rows
from autotune.settings import AllocatorSettings
from autotune.units import GIB

H200 = Environment(
    gpu="NVIDIA H200", driver="580.95.05", torch="2.14.1", python="3.11.2", device_total_bytes=150_109_880_320
)


def measurement(
    settings: str = "",
    *,
    reserved: float = 10.0,
    allocated: float = 5.0,
    seconds: float | Sequence[float] = 0.1,
    obtained: Obtained = Obtained.REPLAYED,
    outcome: Outcome = Outcome.COMPLETED,
    reason: str | None = None,
) -> Measurement:
    """A measurement with memory in GiB; `seconds` are the steps', or a replay's driver time."""
    steps = tuple(seconds) if isinstance(seconds, Sequence) else (seconds,)
    found = Measurement(
        settings=settings, obtained=obtained, outcome=outcome, reason=reason, environment=H200,
        peak_reserved_bytes=int(reserved * GIB), peak_allocated_bytes=int(allocated * GIB),
    )  # fmt: skip
    if obtained is Obtained.MEASURED:
        return replace(found, step_seconds=steps, startup_seconds=0.5)
    return replace(found, allocator_seconds=steps[0])


class FakeRunner:
    """Gives the numbers that its table says; for settings not in it, numbers made from their text alone."""

    def __init__(
        self,
        table: Mapping[str, Measurement] | None = None,
        *,
        obtained: Obtained = Obtained.REPLAYED,
        before: Callable[[str, int], None] = lambda settings, number: None,
    ) -> None:
        self.obtained = obtained
        self.environment = H200
        self.asked: list[str] = []
        self._table = table or {}
        self._before = before

    def measure(
        self, settings: AllocatorSettings, *, number: int, measured_steps: int | None = None
    ) -> Measurement:
        text = str(settings)
        self.asked.append(text)
        self._before(text, number)
        if text in self._table:
            return replace(self._table[text], settings=text)
        chance = random.Random(text)
        reserved = (6.0 if settings.expandable_segments else 10.0) + 3 * chance.random()
        return measurement(text, reserved=reserved, seconds=chance.random(), obtained=self.obtained)

    def close(self) -> None:
        pass


def row(
    number: int, settings: str = "", role: Role = Role.SAMPLED, *, measured: Measurement | None = None
) -> Row:
    """A row of a study."""
    return Row(
        number=number, role=role, settings=settings, measurement=measured or measurement(settings)
    )  # fmt: skip


def summary(
    *rows: Row, study: str = "train", obtained: Obtained = Obtained.REPLAYED, **conditions: object
) -> Summary:
    """The summary of made-up rows."""
    known = Conditions(obtained=obtained, script="/home/me/train.py", environment=H200)
    return summarise_rows(study, replace(known, **conditions), rows)  # type: ignore[arg-type]
