"""Proposing the next settings: Optuna's sampler, kept from repeating itself.

Samplers repeat themselves: of 60 trials of a plain study 13 to 35 differ. Here a proposal is a pure function
of the study's trials and the seed, so a study that was killed and continued proposes what it would have
proposed. It is worked out on a study in memory that is told everything; the stored study never sees a
repetition. Where a trace is known, settings that would only repeat a behaviour are passed over as well.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from optuna import Study
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import PartialFixedSampler, RandomSampler
from optuna.trial import FrozenTrial, TrialState

from autotune.report.stored import Role
from autotune.settings import AllocatorSettings
from autotune.study.candidates import Candidate, candidate
from autotune.study.samplers import study_in_memory
from autotune.study.space import SearchSpace

SAMPLER_ASKS, SLOW_SAMPLER_ASKS = 8, 2
"""Asks of the sampler for something new before chance is asked; a Gaussian process takes seconds for each."""
RANDOM_ASKS = 40
"""Asks of chance before the space is gone through one by one."""
GRID_STEPS = 200
"""How far the space is gone through where every step takes a replay."""
EXPANDABLE_EVERY = 3
"""Every third proposal looks among expandable segments, where few settings differ, the others elsewhere."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """What needs no trial any more."""

    strings: set[str]
    """Canonical strings of everything tried."""
    dead: Callable[[AllocatorSettings], bool] = lambda settings: False
    """True for settings that would fail; they are never proposed."""
    repetition: Callable[[AllocatorSettings], bool] = lambda settings: False
    """True for settings that would only repeat a behaviour."""
    may_repeat: bool = True
    """Whether repetitions are proposed after all when nothing else is left."""


def propose(
    space: SearchSpace,
    history: Sequence[FrozenTrial],
    known: Known,
    *,
    num_objectives: int,
    seed: int,
    sampler: str = "tpe",
    told: Sequence[FrozenTrial] = (),
    screened: Iterable[AllocatorSettings] = (),
) -> Candidate | None:
    """New settings to try; None when there are none.

    Args:
        space: what may be proposed.
        history: the study's finished trials.
        known: what to pass over.
        num_objectives: how many values a trial has.
        seed: start of the random numbers, together with the length of the history.
        sampler: one of SAMPLERS.
        told: predicted trials that the sampler learns from besides the history.
        screened: settings to fall back on when sampler and chance find nothing new, the best first.
    """
    spare: Candidate | None = None
    asked = _asked(space, [*history, *told], num_objectives, seed, len(history), sampler)
    others = itertools.chain(
        ((Role.SAMPLED, settings) for settings in asked),
        ((Role.SCREENED, settings) for settings in screened),
        ((Role.SAMPLED, settings) for settings in itertools.islice(space.grid(), GRID_STEPS)),
    )
    for role, settings in others:
        if str(settings) in known.strings or known.dead(settings):
            continue
        if not known.repetition(settings):
            return candidate(space, role, settings)
        spare = spare or candidate(space, Role.SAMPLED, settings)
    if not known.may_repeat:
        return None
    rest = (one for one in space.grid() if str(one) not in known.strings and not known.dead(one))
    return spare or next((candidate(space, Role.SAMPLED, one) for one in rest), None)


def _asked(
    space: SearchSpace,
    history: Sequence[FrozenTrial],
    num_objectives: int,
    seed: int,
    turn: int,
    sampler: str,
) -> Iterator[AllocatorSettings]:
    """What the sampler answers, and then chance, as often as each is asked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        study = study_in_memory(sampler, history, num_objectives=num_objectives, seed=seed, turn=turn)
        chance, asked = RandomSampler(seed=seed + turn), study.sampler
        asks = SLOW_SAMPLER_ASKS if sampler == "gp" else SAMPLER_ASKS
        # QMC has a sequence of its own, which a fixed parameter would begin anew.
        stratified = space.offers("expandable_segments") and sampler != "qmc"
        for one in (*[asked] * asks, *[chance] * RANDOM_ASKS):
            fixed = {"expandable_segments": turn % EXPANDABLE_EVERY == 0}
            study.sampler = PartialFixedSampler(fixed, one) if stratified else one
            yield _ask(study, space)


def _ask(study: Study, space: SearchSpace) -> AllocatorSettings:
    trial = study.ask()
    settings = space.suggest(trial)
    study.tell(trial, state=TrialState.FAIL)
    return settings
