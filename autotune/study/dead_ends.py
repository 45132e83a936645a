"""Dead ends: settings under which the script did not run, and what contains them, are not proposed again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields

from autotune.measurement import Outcome
from autotune.report.stored import Row
from autotune.settings import AllocatorSettings

BROKEN = (Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.REJECTED)
"""Outcomes that say nothing about memory."""


def dead_end(rows: Sequence[Row]) -> Callable[[AllocatorSettings], bool]:
    """Whether settings contain everything that some broken trial set, as far as these rows tell.

    Where `expandable_segments:True` crashed, whatever else is set with it would crash too. Not so if some
    trial that contained the same settings did complete: then these were not to blame.
    """
    ran = [_options(row) for row in rows if row.measurement.outcome not in BROKEN]
    broken = [_options(row) for row in rows if row.measurement.outcome in BROKEN]
    culprits = [one for one in broken if one and not any(one <= other for other in ran)]
    return lambda settings: any(one <= _set(settings) for one in culprits)


def _options(row: Row) -> set[tuple[str, object]]:
    return _set(AllocatorSettings.parse(row.settings))


def _set(settings: AllocatorSettings) -> set[tuple[str, object]]:
    """The options that are mentioned, with their values."""
    pairs = ((item.name, getattr(settings, item.name)) for item in fields(settings))
    return {pair for pair in pairs if pair[1] is not None and pair[1] != ()}
