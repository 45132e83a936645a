"""What the confirmation found: finalists against the defaults, in rounds of fresh processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autotune.measurement import Measurement
from autotune.report.noise import Change, change
from autotune.report.stored import Role, Row
from autotune.units import format_bytes, format_percent

LEAST_ROUNDS = 3
"""Fewer say too little to overthrow a recommendation."""


@dataclass(frozen=True, kw_only=True)
class Confirmed:
    """One finalist's runs against the defaults' runs of the same rounds."""

    settings: str
    rounds: int
    """Rounds in which both were run."""
    failures: int
    """Runs of this finalist that did not complete."""
    reference_failures: int
    """Runs of the defaults that did not complete."""
    reference_bytes: tuple[int, ...]
    """Peak reserved of each run of the defaults in a round that completed."""
    peak_reserved_bytes: tuple[int, ...]
    """Peak reserved of each run of this finalist that completed; of rounds where the defaults did, too."""
    memory: Change | None
    """None where either side failed, or there was but one round."""
    seconds: Change | None
    """Of the median step; None also where steps were not timed."""

    @property
    def refuted(self) -> bool:
        """Whether three rounds or more found that it fails, or saves nothing beyond noise."""
        if self.rounds < LEAST_ROUNDS or self.reference_failures:
            return self.rounds >= LEAST_ROUNDS and self.failures > 0
        saves = self.memory is not None and self.memory.high < 1
        return self.failures > 0 or not saves

    def to_json(self) -> dict[str, Any]:
        """The fields, for `--json`."""
        return asdict(self)


def confirmations(rows: Sequence[Row]) -> list[Confirmed]:
    """One entry for each finalist other than the defaults, in the order of their first runs."""
    runs: dict[str, list[Measurement]] = {}
    for row in rows:
        if row.role is Role.CONFIRM:
            runs.setdefault(row.settings, []).append(row.measurement)
    references = runs.pop("", [])
    return [compared(settings, references, found) for settings, found in runs.items()]


def compared(
    settings: str, references: Sequence[Measurement], measurements: Sequence[Measurement]
) -> Confirmed:
    """Runs of some settings against runs of the defaults, the first of one with the first of the other."""
    rounds = list(zip(references, measurements, strict=False))
    complete = [pair for pair in rounds if all(_completed(one) for one in pair)]
    timed = [pair for pair in complete if all(one.median_step_seconds for one in pair)]
    return Confirmed(
        settings=settings,
        rounds=len(rounds),
        failures=sum(not _completed(one) for _, one in rounds),
        reference_failures=sum(not _completed(one) for one, _ in rounds),
        reference_bytes=tuple(one.peak_reserved_bytes or 0 for one, _ in complete),
        peak_reserved_bytes=tuple(one.peak_reserved_bytes or 0 for _, one in complete),
        memory=change(
            [one.peak_reserved_bytes or 0 for one, _ in complete],
            [one.peak_reserved_bytes or 0 for _, one in complete],
        ),
        seconds=change(
            [one.median_step_seconds or 0.0 for one, _ in timed],
            [one.median_step_seconds or 0.0 for _, one in timed],
        ),
    )


def sentence(confirmed: Confirmed) -> str:
    """The finding in words, with its intervals."""
    begin = f"In {confirmed.rounds} rounds in fresh processes, against the defaults:"
    parts = []
    if confirmed.failures:
        parts.append(f"{confirmed.failures} of its runs did not complete")
    if confirmed.reference_failures:
        parts.append(
            f"{confirmed.reference_failures} of {confirmed.rounds} runs under the defaults did not complete"
        )
    if confirmed.peak_reserved_bytes and confirmed.memory is None:
        parts.append(f"peak reserved {format_bytes(max(confirmed.peak_reserved_bytes))}")
    parts += [
        f"{name} {_change(found)}"
        for name, found in (("peak reserved", confirmed.memory), ("step time", confirmed.seconds))
        if found is not None
    ]
    return f"{begin} {'; '.join(parts) or 'nothing to compare'}."


def _change(found: Change) -> str:
    if found.low == found.high:
        return "as before in every one" if found.ratio == 1 else f"{_signed(found.ratio)} in every one"
    text = f"{_signed(found.ratio)} (95 % interval {_signed(found.low)} to {_signed(found.high)})"
    return text if found.beyond_noise else f"{text}, no difference beyond noise"


def _signed(ratio: float) -> str:
    share = ratio - 1
    return f"{'+' if share > 0 else '−' if share < 0 else ''}{format_percent(abs(share))}"


def _completed(measurement: Measurement) -> bool:
    return measurement.outcome.value == "completed"
