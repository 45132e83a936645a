"""The study loop: take a candidate, measure it, enter the result; baseline first, nothing twice.

The loop knows a Runner and cannot tell a GPU from a replay. It keeps no state of its own: what was tried is
read from the study, so the same call continues a study that was interrupted at any point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import optuna

from autotune.errors import WorkFailedError
from autotune.measurement import Measurement, Outcome
from autotune.report.pick import point
from autotune.report.stored import Role, Row, read_rows
from autotune.study.book import enter, shown
from autotune.study.candidates import Candidate
from autotune.study.propose import propose
from autotune.study.space import SearchSpace
from autotune.study.storage import database_errors
from autotune.trial.runner import Runner

BROKEN = (Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.REJECTED)
"""Outcomes that say nothing about memory."""
GIVE_UP_AFTER = 5
"""Broken trials in a row after which something other than the settings must be wrong."""


class Ending(StrEnum):
    """Why the loop ended."""

    BUDGET_SPENT = "budget spent"
    SPACE_EXHAUSTED = "space exhausted"
    """Every settings of the space was tried."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a study is to do."""

    space: SearchSpace
    first: Sequence[Candidate]
    """Candidates that come before the sampler's, the defaults at their head."""
    trials: int
    """Finished trials the study shall have in the end, those of earlier runs included."""
    seed: int


def run_trials(
    study: optuna.Study,
    runner: Runner,
    plan: Plan,
    *,
    on_start: Callable[[int, Candidate], None] = lambda number, candidate: None,
    on_finish: Callable[[Row], None] = lambda row: None,
) -> Ending:
    """Run trials until the study has as many as planned.

    Args:
        study: the stored study; it must be held (`hold_study`).
        runner: measures one candidate.
        plan: what to try, and how often.
        on_start: told each trial's number and candidate before it is measured.
        on_finish: told each trial after it is stored.

    Raises:
        WorkFailedError: the defaults do not run, or too many trials broke in a row.
        StudyError: a result could not be stored.
    """
    broken = 0
    for candidate in _candidates(study, plan):
        number = len(_history(study))
        on_start(number, candidate)
        started = datetime.now()
        measurement = runner.measure(candidate.settings, number=number)
        with database_errors(shown(study_storage(study))):
            enter(study, plan.space, candidate, measurement, started)
        on_finish(_entered(number, candidate, measurement))
        if candidate.role is Role.DEFAULT:
            _require_baseline(measurement)
        broken = broken + 1 if measurement.outcome in BROKEN else 0
        if broken == GIVE_UP_AFTER:
            raise WorkFailedError(
                f"{broken} trials in a row failed, the last one with: {_why(measurement)} "
                "Finished trials are kept; put that right and run the same command again."
            )
    return Ending.BUDGET_SPENT if len(_rows(study)) >= plan.trials else Ending.SPACE_EXHAUSTED


def _candidates(study: optuna.Study, plan: Plan) -> Iterator[Candidate]:
    """Candidates not tried yet, as many as the budget allows, each worked out when it is wanted."""
    while len(rows := _rows(study)) < plan.trials:
        tried = tried_settings(rows)
        candidate = next((one for one in plan.first if str(one.settings) not in tried), None)
        if candidate is None:
            candidate = propose(
                plan.space,
                _history(study),
                tried,
                num_objectives=len(study.directions),
                seed=plan.seed,
            )
        if candidate is None:
            return
        yield candidate


def _rows(study: optuna.Study) -> list[Row]:
    with database_errors(shown(study_storage(study))):
        return read_rows(study)


def _history(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    with database_errors(shown(study_storage(study))):
        return study.get_trials(deepcopy=False)


def tried_settings(rows: Sequence[Row]) -> set[str]:
    """Strings that need no further trial: everything entered, but the defaults only once they have run."""
    return {
        row.settings for row in rows if row.role is not Role.DEFAULT or row.measurement.outcome not in BROKEN
    }


def _require_baseline(measurement: Measurement) -> None:
    """Without the defaults there is nothing to compare with, and other settings would fail alike."""
    if measurement.outcome in BROKEN:
        log = f" Everything it printed is in {measurement.log}." if measurement.log else ""
        raise WorkFailedError(f"The run under PyTorch's defaults failed: {_why(measurement)}{log}")
    row = _entered(0, None, measurement)
    if measurement.outcome is Outcome.COMPLETED and point(row) is None:
        raise WorkFailedError(
            "The run under PyTorch's defaults reserved no GPU memory, or its steps were not timed; "
            "there is nothing to tune. Does the script use the GPU, and does it run long enough?"
        )


def _why(measurement: Measurement) -> str:
    return measurement.reason or f"{measurement.outcome}."


def study_storage(study: optuna.Study) -> optuna.storages.RDBStorage:
    """The database behind a study."""
    storage = study._storage
    backend = getattr(storage, "_backend", storage)
    assert isinstance(backend, optuna.storages.RDBStorage)
    return backend


def _entered(number: int, candidate: Candidate | None, measurement: Measurement) -> Row:
    role = candidate.role if candidate else Role.DEFAULT
    settings = str(candidate.settings) if candidate else ""
    return Row(number=number, role=role, settings=settings, measurement=measurement)
