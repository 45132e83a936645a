"""The screening of a study, kept in a study of its own: NAME.screen.

Its trials are replays, marked as such. It is stored whole or not at all: the sentence about it is written
last, and without that it counts as cut short and is made anew.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import optuna
from optuna.samplers import RandomSampler
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from autotune.errors import StudyError
from autotune.metrics import SCREEN_OBJECTIVES
from autotune.report.stored import (
    CONDITIONS,
    MEASUREMENT,
    ROLE,
    SCREEN_OF,
    SETTINGS,
    Conditions,
    Role,
    read_conditions,
    read_rows,
)
from autotune.settings import AllocatorSettings
from autotune.study.book import SCREEN, compare, name_metrics, shown, study_names
from autotune.study.predict import Prediction
from autotune.study.space import SearchSpace

SCREENING, BEHAVIOUR = "screening", "behaviour"


@dataclass(frozen=True, kw_only=True)
class Screened:
    """What is kept of a screening."""

    num_settings: int
    """Settings that were replayed."""
    num_behaviours: int
    """Different behaviours among them."""
    members: tuple[Prediction, ...]
    """The front, and some others; each with its smallest fit."""


def screen_name(study: str) -> str:
    """The name of a study's screening."""
    return f"{study}{SCREEN}"


def store(
    storage: RDBStorage, study: str, conditions: Conditions, space: SearchSpace, screened: Screened
) -> None:
    """Keep a screening, in place of one that was cut short or made under other conditions.

    Raises:
        StudyError: a study of that name exists and is no screening of this one.
    """
    name = screen_name(study)
    if _existing(storage, study) is not None:
        optuna.delete_study(study_name=name, storage=storage)
    made = optuna.create_study(
        study_name=name,
        storage=storage,
        sampler=RandomSampler(),
        directions=[metric.direction for metric in SCREEN_OBJECTIVES],
    )
    # First of all: it marks the study as ours to replace.
    made.set_user_attr(SCREEN_OF, study)
    name_metrics(made, SCREEN_OBJECTIVES)
    made.set_user_attr(CONDITIONS, json.dumps(conditions.to_json()))
    made.add_trials([_trial(space, found) for found in screened.members])
    counts = {"num_settings": screened.num_settings, "num_behaviours": screened.num_behaviours}
    made.set_user_attr(SCREENING, json.dumps(counts))


def load(storage: RDBStorage, study: str, conditions: Conditions | None = None) -> Screened | None:
    """The study's screening; None if there is none, or not under these conditions (None = any).

    Raises:
        StudyError: a study of that name exists and is no screening of this one.
    """
    found = _existing(storage, study)
    if found is None or SCREENING not in found.user_attrs:
        return None
    if conditions is not None and compare(read_conditions(found), conditions):
        return None
    keys = [trial.user_attrs.get(BEHAVIOUR, "") for trial in found.get_trials(deepcopy=False)]
    return Screened(
        **json.loads(found.user_attrs[SCREENING]),
        members=tuple(
            Prediction(
                settings=AllocatorSettings.parse(row.settings),
                behaviour=keys[row.number],
                measurement=row.measurement,
            )
            for row in read_rows(found)
        ),
    )


def screened_trace_digest(storage: RDBStorage, study: str) -> str | None:
    """Digest of the trace that the study was screened with; None if it was not."""
    found = _existing(storage, study)
    if found is None or SCREENING not in found.user_attrs:
        return None
    return read_conditions(found).trace_sha256


def _existing(storage: RDBStorage, study: str) -> optuna.Study | None:
    name = screen_name(study)
    if name not in study_names(storage):
        return None
    found = optuna.load_study(study_name=name, storage=storage, sampler=RandomSampler())
    empty = not found.user_attrs and not found.get_trials(deepcopy=False)
    if found.user_attrs.get(SCREEN_OF) != study and not empty:
        raise StudyError(
            f"The screening of '{study}' is kept as study '{name}', which {shown(storage)} has already; "
            "choose another name with --study, or no screening with --engine off."
        )
    return found


def _trial(space: SearchSpace, found: Prediction) -> FrozenTrial:
    parameters = space.parameters(found.settings) or {}
    return create_trial(
        state=TrialState.COMPLETE,
        values=[(metric.value(found.measurement) or 0.0) * metric.scale for metric in SCREEN_OBJECTIVES],
        params=parameters,
        distributions=space.distributions(parameters),
        user_attrs={
            ROLE: str(_role(found.settings)),
            SETTINGS: str(found.settings),
            MEASUREMENT: json.dumps(found.measurement.to_json()),
            BEHAVIOUR: found.behaviour,
        },
    )


def _role(settings: AllocatorSettings) -> Role:
    if settings == AllocatorSettings():
        return Role.DEFAULT
    return Role.EXPANDABLE if settings == AllocatorSettings(expandable_segments=True) else Role.SCREENED
