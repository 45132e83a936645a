"""The study loop: take a candidate, measure it, enter the result; baseline first, nothing twice.

The loop knows a Runner and cannot tell a GPU from a replay. It keeps no state of its own: what was tried is
read from the study, so the same call continues a study that was interrupted at any point.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

import optuna

from autotune.errors import WorkFailedError
from autotune.measurement import Measurement, Obtained, Outcome
from autotune.report.objectives import point
from autotune.report.stored import SAME_AS, Role, Row, read_conditions, read_rows, read_same_as, searched
from autotune.study.baselines import baseline_is_due, baselines_missing
from autotune.study.book import enter, shown
from autotune.study.candidates import Candidate, candidate
from autotune.study.dead_ends import BROKEN, dead_end
from autotune.study.guide import Guide
from autotune.study.propose import Known, propose
from autotune.study.space import SearchSpace
from autotune.study.stopping import nothing_to_gain, worth_a_trial
from autotune.study.storage import database_errors
from autotune.trial.runner import Runner

GIVE_UP_AFTER = 5
"""Broken trials in a row after which something other than the settings must be wrong."""
SKIPPED_WHEN_KNOWN = (Role.FOLKLORE, Role.SCREENED, Role.SAMPLED)
"""Roles whose candidates are passed over if their behaviour was tried already; the others were asked for."""


class Ending(StrEnum):
    """Why the loop ended."""

    BUDGET_SPENT = "budget spent"
    SPACE_EXHAUSTED = "space exhausted"
    """Everything in the space was tried, or everything in it that behaves differently."""
    NOTHING_TO_GAIN = "nothing to gain"
    """No untested candidate can improve the front by more than the noise."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a study is to do."""

    space: SearchSpace
    first: Sequence[Candidate]
    """Candidates that come before the sampler's, the defaults at their head."""
    trials: int
    """Finished trials the study shall have in the end, those of earlier runs included, repetitions aside."""
    seed: int
    sampler: str = "tpe"
    guide: Guide | None = None
    """What the trace predicts; None = every trial is a leap in the dark."""
    baselines: int = 1
    """How often the defaults run, spread over the first trials; more than once where runs differ."""
    early_stop: bool = False
    """Whether to end before the budget is spent when nothing is left to gain."""

    def stops(self, rows: Sequence[Row]) -> bool:
        """Whether nothing is left to gain after these rows."""
        return self.early_stop and self.guide is not None and nothing_to_gain(rows, self.guide)

    def next_of(self, wanted: Sequence[Candidate], rows: Sequence[Row]) -> Candidate | None:
        """The first of the wanted ones, but of screened ones only what after these rows is worth a trial.

        Where none is left, any other member of the screening that is: what stands between the search and its
        end is tried next, and the sampler could not know of it.
        """
        guide = self.guide
        if not self.early_stop or guide is None:
            return next(iter(wanted), None)
        worth = worth_a_trial(rows, guide)
        behaviours = {found.behaviour for found in worth}
        for one in wanted:
            if one.role is not Role.SCREENED or guide.behaviour(one.settings) in behaviours:
                return one
        if worth and guide.trusted:
            return candidate(self.space, Role.SCREENED, worth[0].settings)
        return None


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
    for chosen in _candidates(study, plan):
        number = len(_history(study))
        on_start(number, chosen)
        started = datetime.now()
        measurement = runner.measure(chosen.settings, number=number)
        with database_errors(shown(study_storage(study))):
            enter(study, plan.space, chosen, measurement, started)
        on_finish(_entered(number, chosen, measurement))
        if chosen.role is Role.DEFAULT and not chosen.repeated:
            _require_baseline(measurement)
        broken = broken + 1 if measurement.outcome in BROKEN else 0
        if broken == GIVE_UP_AFTER:
            raise WorkFailedError(
                f"{broken} trials in a row failed, the last one with: {measurement.why} "
                "Finished trials are kept; put that right and run the same command again."
            )
    return _ending(study, plan)


def _ending(study: optuna.Study, plan: Plan) -> Ending:
    rows = _rows(study)
    if len(searched(rows)) >= plan.trials:
        return Ending.BUDGET_SPENT
    return Ending.NOTHING_TO_GAIN if plan.stops(rows) else Ending.SPACE_EXHAUSTED


def _candidates(study: optuna.Study, plan: Plan) -> Iterator[Candidate]:
    """Candidates not tried yet, as many as the budget allows, each worked out when it is wanted."""
    while True:
        rows = _rows(study)
        chosen = None
        if len(searched(rows)) < plan.trials and not baseline_is_due(rows, plan.baselines):
            chosen = _untried(study, plan, rows)
        if chosen is None and baselines_missing(rows, plan.baselines):
            chosen = replace(plan.first[0], repeated=True)
        if chosen is None:
            return
        yield chosen


def _untried(study: optuna.Study, plan: Plan, rows: Sequence[Row]) -> Candidate | None:
    """The next of the first candidates, else what the sampler proposes; None when nothing is left to try."""
    known = _known(study, rows, plan)
    _note_repetitions(study, plan, rows)
    wanted = [one for one in plan.first if _is_wanted(one, known)]
    chosen = plan.next_of(wanted, rows)
    if chosen is None and not plan.stops(rows):
        chosen = _proposal(study, plan, rows, known)
    return chosen


def _proposal(study: optuna.Study, plan: Plan, rows: Sequence[Row], known: Known) -> Candidate | None:
    """The sampler's next settings, with what is predicted told to it."""
    guide, obtained = plan.guide, read_conditions(study).obtained
    return propose(
        plan.space,
        _history(study),
        known,
        num_objectives=len(study.directions),
        seed=plan.seed,
        sampler=plan.sampler,
        told=guide.told(rows, plan.space, obtained) if guide else (),
        screened=[found.settings for found in guide.untested(rows)] if guide else (),
    )


def _known(study: optuna.Study, rows: Sequence[Row], plan: Plan) -> Known:
    """What needs no further trial; a replay may repeat a behaviour rather than end early, a GPU may not."""
    guide, tried = plan.guide, tried_settings(rows)
    if guide is None:
        return Known(strings=tried, dead=dead_end(rows))
    behaviours = guide.behaviours(rows)
    return Known(
        strings=tried,
        dead=dead_end(rows),
        repetition=lambda settings: guide.behaviour(settings) in behaviours,
        may_repeat=read_conditions(study).obtained is not Obtained.MEASURED,
    )


def _is_wanted(candidate: Candidate, known: Known) -> bool:
    if str(candidate.settings) in known.strings:
        return False
    if candidate.role not in SKIPPED_WHEN_KNOWN:
        return True
    return not known.dead(candidate.settings) and not known.repetition(candidate.settings)


def _note_repetitions(study: optuna.Study, plan: Plan, rows: Sequence[Row]) -> None:
    """Keep which folklore needed no trial and what it is like, for the report."""
    if plan.guide is None:
        return
    tried, behaviours = {row.settings for row in rows}, plan.guide.behaviours(rows)
    folklore = [one.settings for one in plan.first if one.role is Role.FOLKLORE]
    same_as = {
        str(settings): behaviours[key]
        for settings in folklore
        if str(settings) not in tried and (key := plan.guide.behaviour(settings)) in behaviours
    }
    if same_as != read_same_as(study):
        with database_errors(shown(study_storage(study))):
            study.set_user_attr(SAME_AS, json.dumps(same_as))


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
        raise WorkFailedError(f"The run under PyTorch's defaults failed: {measurement.why}")
    row = _entered(0, None, measurement)
    if measurement.outcome is Outcome.COMPLETED and point(row) is None:
        raise WorkFailedError(
            "The run under PyTorch's defaults reserved no GPU memory, or its steps were not timed; "
            "there is nothing to tune. Does the script use the GPU, and does it run long enough?"
        )


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
