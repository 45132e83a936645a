"""The studies of a database, a line each, so that one can be named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from autotune.errors import StudyError
from autotune.report.stored import read_conditions, read_rows
from autotune.report.wording import plain, tuned

if TYPE_CHECKING:
    from optuna import Study

WIDEST_NAME = 40
"""Longer names push what follows to the right, on their own line only."""


@dataclass(frozen=True, kw_only=True)
class Listed:
    """One study in a few words."""

    study: str
    trials: int
    obtained: str | None
    """How its numbers were obtained; None where another version of autotune wrote it."""
    tuned: str | None
    """The script with its arguments, or the trace; None likewise."""


def listed(study: Study) -> Listed:
    """The study in a few words; one that cannot be read is listed all the same, as it takes a name."""
    trials = len(read_rows(study))
    try:
        conditions = read_conditions(study)
    except StudyError:
        return Listed(study=study.study_name, trials=trials, obtained=None, tuned=None)
    return Listed(
        study=study.study_name, trials=trials, obtained=str(conditions.obtained), tuned=tuned(conditions)
    )


def lines(studies: Sequence[Listed]) -> list[str]:
    """A line a study, in columns."""
    names = [plain(one.study) for one in studies]
    width = min(WIDEST_NAME, max(map(len, names), default=0))
    digits = max((len(str(one.trials)) for one in studies), default=0)
    return [
        f"{name:<{width}}  {one.trials:>{digits}} trial{'s' if one.trials != 1 else ' '}  "
        + (f"{one.obtained:<9}  {one.tuned}" if one.obtained else "written by another version of autotune")
        for name, one in zip(names, studies, strict=True)
    ]


def document(studies: Sequence[Listed]) -> list[dict[str, Any]]:
    """What `report --list --json` prints."""
    return [asdict(one) for one in studies]
