"""Proposing the next settings: Optuna's sampler, kept from repeating itself.

Samplers repeat themselves: of 60 trials of a plain study 13 to 35 differ. Here a proposal is a pure function
of the study's trials and the seed, so a study that was killed and continued proposes what it would have
proposed. It is worked out on a study in memory that is told everything; the stored study never sees a
repetition.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, PartialFixedSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from autotune.report.stored import Role
from autotune.study.candidates import Candidate, candidate
from autotune.study.space import SearchSpace

TPE_ASKS = 8
"""Asks of the sampler for something new before chance is asked."""
RANDOM_ASKS = 40
"""Asks of chance before the space is gone through one by one."""
EXPANDABLE_EVERY = 3
"""Every third proposal looks among expandable segments, where few settings differ, the others elsewhere."""


def propose(
    space: SearchSpace, history: Sequence[FrozenTrial], tried: set[str], *, num_objectives: int, seed: int
) -> Candidate | None:
    """New settings to try; None when everything in the space was tried.

    Args:
        space: what may be proposed.
        history: the study's finished trials.
        tried: canonical strings of everything tried so far.
        num_objectives: how many values a trial has.
        seed: start of the random numbers, together with the length of the history.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        study = optuna.create_study(directions=["minimize"] * num_objectives)
        study.add_trials(history)
        for sampler in _samplers(space, seed + len(history), turn=len(history)):
            study.sampler = sampler
            trial = study.ask()
            settings = space.suggest(trial)
            if str(settings) not in tried:
                return candidate(space, Role.SAMPLED, settings)
            study.tell(trial, state=TrialState.FAIL)
    return next(
        (candidate(space, Role.SAMPLED, found) for found in space.grid() if str(found) not in tried), None
    )


def _samplers(space: SearchSpace, seed: int, *, turn: int) -> Iterator[BaseSampler]:
    """One sampler for each ask."""
    tpe = TPESampler(multivariate=True, group=True, constant_liar=True, seed=seed)
    chance = RandomSampler(seed=seed)
    for sampler in (*[tpe] * TPE_ASKS, *[chance] * RANDOM_ASKS):
        if space.offers("expandable_segments"):
            fixed = {"expandable_segments": turn % EXPANDABLE_EVERY == 0}
            yield PartialFixedSampler(fixed, sampler)
        else:
            yield sampler
