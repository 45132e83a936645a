"""Confirmation: the finalists measured again, one after the other in rounds, with more steps than before.

Interleaved, because clocks and neighbours change over minutes: what one finalist meets the others meet too.
Without a GPU the script is recorded again, with as many more steps, and the finalists are replayed on that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

import optuna

from autotune.report.confirmed import MORE_STEPS
from autotune.report.stored import Role, Row, confirmation, read_rows
from autotune.report.summary import Summary, summarise
from autotune.settings import AllocatorSettings
from autotune.study.book import enter, shown
from autotune.study.candidates import Candidate, candidate
from autotune.study.loop import study_storage
from autotune.study.space import SearchSpace
from autotune.study.storage import database_errors
from autotune.trial.runner import Runner


def finalists(summary: Summary) -> list[AllocatorSettings]:
    """The defaults, `expandable_segments:True` and the recommendation, each once; none without a choice."""
    rows = [summary.baseline, summary.first(Role.EXPANDABLE), summary.recommended]
    texts = dict.fromkeys(row.settings for row in rows if row is not None)
    if summary.recommended is None or len(texts) < 2:
        return []
    return [AllocatorSettings.parse(text) for text in texts]


def missing_runs(
    settings: Sequence[AllocatorSettings], rows: Sequence[Row], rounds: int
) -> Iterator[AllocatorSettings]:
    """The runs that are still to be made, in their order; a round that was cut short is completed first."""
    done = {str(one): 0 for one in settings}
    for row in confirmation(rows):
        if row.settings in done:
            done[row.settings] += 1
    for number in range(rounds):
        yield from (one for one in settings if done[str(one)] <= number)


def confirm(
    study: optuna.Study,
    runner: Runner,
    space: SearchSpace,
    *,
    rounds: int,
    on_start: Callable[[int, Candidate], None] = lambda number, candidate: None,
    on_finish: Callable[[Row], None] = lambda row: None,
) -> None:
    """Measure the finalists again, `rounds` times, and store each run as a trial with the role `confirm`.

    Raises:
        StudyError: a result could not be stored.
    """
    where = shown(study_storage(study))
    with database_errors(where):
        summary = summarise(study)
    steps = (summary.conditions.measured_steps or 1) * MORE_STEPS
    for settings in missing_runs(finalists(summary), summary.rows, rounds):
        number = len(study.get_trials(deepcopy=False))
        chosen = candidate(space, Role.CONFIRM, settings)
        on_start(number, chosen)
        started = datetime.now()
        measurement = runner.measure(chosen.settings, number=number, measured_steps=steps)
        with database_errors(where):
            enter(study, space, chosen, measurement, started)
            on_finish(read_rows(study)[-1])
