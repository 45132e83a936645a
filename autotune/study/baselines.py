"""Repeating the defaults: how far apart equal runs are is the noise that other differences have to exceed."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.report.stored import Role, Row, searched

BASELINES = 3
"""Runs of the defaults in a measured study."""
APART = 8
"""Trials between two of them: minutes, over which clocks and neighbours change."""


def baseline_is_due(rows: Sequence[Row], wanted: int) -> bool:
    """Whether the next trial should be the defaults again."""
    return baselines_missing(rows, wanted) and len(searched(rows)) >= APART * len(_completed(rows))


def baselines_missing(rows: Sequence[Row], wanted: int) -> bool:
    """Whether the defaults, having run once, are still to be repeated."""
    return 0 < len(_completed(rows)) < wanted and len(_all(rows)) < 2 * wanted


def _completed(rows: Sequence[Row]) -> list[Row]:
    return [row for row in _all(rows) if row.completed]


def _all(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.role is Role.DEFAULT]
