"""Optuna's samplers by name, each set up for a study that is told everything anew at every proposal."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Sequence

import optuna
from optuna.samplers import BaseSampler, GPSampler, NSGAIISampler, QMCSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from autotune.errors import UsageError

SAMPLERS = ("tpe", "gp", "nsga2", "qmc", "random")
POPULATION = 20
"""Individuals of NSGA-II; Optuna's 50 would be pure chance in a study of 60 trials."""
_NEEDS = {"gp": ("scipy", "torch"), "qmc": ("scipy",)}
_GENERATION = "NSGAIISampler:generation"
"""Where Optuna's NSGA-II keeps the generation of a trial."""


def check_sampler(name: str) -> None:
    """Refuse a sampler that there is not, or that cannot run in this interpreter.

    Raises:
        UsageError: it is unknown, or a package that it needs is missing.
    """
    if name not in SAMPLERS:
        raise UsageError(f"'{name}' is no sampler; choose one of {', '.join(SAMPLERS)}.")
    missing = [package for package in _NEEDS.get(name, ()) if importlib.util.find_spec(package) is None]
    if missing:
        raise UsageError(
            f"--sampler {name} needs {' and '.join(missing)} beside autotune; "
            f"install with: pip install {' '.join(missing)}."
        )


def study_in_memory(
    name: str, history: Sequence[FrozenTrial], *, num_objectives: int, seed: int, turn: int
) -> optuna.Study:
    """A study with this sampler that holds the history, laid out as the sampler has to see it.

    What it answers next depends on the arguments alone. NSGA-II looks for parents in the generation before,
    and trials that it did not make itself belong to none; so all of them make one generation, whose best are
    the parents. QMC goes on in its sequence by the number of times that it was asked.

    Args:
        name: one of SAMPLERS.
        history: finished trials.
        num_objectives: how many values a trial has, all to be minimised.
        seed: of the whole study.
        turn: number of this proposal.
    """
    num_completed = sum(trial.state is TrialState.COMPLETE for trial in history)
    study = optuna.create_study(
        directions=["minimize"] * num_objectives,
        sampler=_sampler(name, seed=seed, turn=turn, num_completed=num_completed),
    )
    study.add_trials([_of_generation_0(trial) for trial in history] if name == "nsga2" else history)
    if name == "qmc":
        for _ in range(turn):
            study.tell(study.ask(), state=TrialState.FAIL)
    return study


def _sampler(name: str, *, seed: int, turn: int, num_completed: int) -> BaseSampler:
    if name == "gp":
        return GPSampler(seed=seed + turn)
    if name == "nsga2":
        return NSGAIISampler(seed=seed + turn, population_size=max(2, min(POPULATION, num_completed)))
    if name == "qmc":
        return QMCSampler(seed=seed, scramble=True, warn_independent_sampling=False)
    if name == "random":
        return RandomSampler(seed=seed + turn)
    return TPESampler(multivariate=True, group=True, constant_liar=True, seed=seed + turn)


def _of_generation_0(trial: FrozenTrial) -> FrozenTrial:
    found = copy.copy(trial)
    found.system_attrs = {**trial.system_attrs, _GENERATION: 0}
    return found
