"""The book of a study: finding, creating and continuing it, and one entry per finished trial.

A trial is entered in one transaction, after it was measured. So a process that is killed at any moment leaves
every finished trial and nothing half-done: no trial that looks as if it were still running.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import optuna
from optuna.exceptions import DuplicatedStudyError, ExperimentalWarning
from optuna.samplers import RandomSampler
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from autotune.errors import StudyError
from autotune.measurement import Measurement, Outcome
from autotune.metrics import Metric, objectives
from autotune.report.objectives import point
from autotune.report.stored import (
    CONDITIONS,
    MEASUREMENT,
    ROLE,
    SCREEN_OF,
    SETTINGS,
    Conditions,
    Row,
    read_conditions,
)
from autotune.study.candidates import Candidate
from autotune.study.space import SearchSpace
from autotune.study.storage import database_errors, reading_errors
from autotune.units import format_bytes

OUT_OF_MEMORY = "out_of_memory"
"""Name of the constraint: above zero where memory ran out."""
LONGEST_NAME = 200
SHOWN_NAMES = 5
SCREEN = ".screen"
"""What the name of a screening's study ends with."""

_COMPARED = {
    "obtained": "results",
    "script": "script",
    "script_sha256": "version of the script",
    "arguments": "arguments of the script",
    "trace_sha256": "trace",
    "memory_limit_bytes": "memory limit",
    "warmup_steps": "warm-up steps",
    "measured_steps": "measured steps",
    "seed": "seed",
    "without": "options left out",
}
_COMPARED_ENVIRONMENT = {
    "gpu": "GPU",
    "device_total_bytes": "memory of the GPU",
    "torch": "torch",
    "driver": "driver",
    "backend": "allocator backend",
}
SHOWN_DIFFERENCES = 3
"""Of two conditions; where results were obtained in another way, most others differ as a consequence."""
SHOWN_DIGITS = 12
"""Of a hash: enough to tell two apart."""
SHOWN_LETTERS = 60


def check_name(name: str) -> None:
    """Refuse names that a database, a terminal or a file would choke on.

    Raises:
        StudyError: the name is empty, too long or holds control characters.
    """
    if not name.strip() or len(name) > LONGEST_NAME:
        raise StudyError(f"A study's name has 1 to {LONGEST_NAME} characters; '{name[:40]}' has {len(name)}.")
    if not name.isprintable():
        raise StudyError(
            f"{name!a} holds line breaks or control characters; choose a plain name with --study."
        )


def study_names(storage: RDBStorage) -> list[str]:
    """Names of all studies in the database, the most recently touched last."""
    summaries = optuna.get_all_study_summaries(storage, include_best_trial=False)
    return [found.study_name for found in sorted(summaries, key=_last_touched)]


def load_study(storage: RDBStorage, name: str | None) -> optuna.Study:
    """The study of this name, or the most recent one of autotune's that is no screening.

    Raises:
        StudyError: there is none.
    """
    with reading_errors(shown(storage)):
        if name is None:
            found = next(own_studies(storage), None)
            if found is None:
                raise StudyError(f"There is no study in {shown(storage)} yet; make one with `autotune run`.")
            return found
        names = study_names(storage)
        if name not in names:
            own = [one for one in names if not one.endswith(SCREEN) or one.removesuffix(SCREEN) not in names]
            raise StudyError(f"There is no study '{name}' in {shown(storage)}; {_known(own)}.")
        return optuna.load_study(study_name=name, storage=storage, sampler=RandomSampler())


def own_studies(storage: RDBStorage) -> Iterator[optuna.Study]:
    """Autotune's studies, the newest first; a screening is none."""
    for name in reversed(study_names(storage)):
        study = optuna.load_study(study_name=name, storage=storage, sampler=RandomSampler())
        if CONDITIONS in study.user_attrs and SCREEN_OF not in study.user_attrs:
            yield study


def _known(names: Sequence[str]) -> str:
    """What may have been meant: the newest names, and where the others are."""
    if not names:
        return "it is empty"
    shown_names = ", ".join(f"'{name}'" for name in reversed(names[-SHOWN_NAMES:]))
    more = len(names) - SHOWN_NAMES
    return f"it has {shown_names}" + (
        f" and {more} more, which `autotune report --list` shows" if more > 0 else ""
    )


def open_study(storage: RDBStorage, name: str, conditions: Conditions) -> optuna.Study:
    """Create the study, or continue it if it was made under the same conditions.

    Raises:
        StudyError: the name is taken by a study made under other conditions, or by somebody else's.
    """
    check_name(name)
    check_conditions(storage, name, conditions)
    with database_errors(shown(storage)):
        study = _create_or_load(storage, name, len(objectives(conditions.obtained)))
        if CONDITIONS not in study.user_attrs or not study.get_trials(deepcopy=False):
            _begin(study, conditions)
    return study


def check_conditions(
    storage: RDBStorage, name: str, conditions: Conditions, *, before_recording: bool = False
) -> Conditions | None:
    """The conditions that the study was made under; None where there is no such study yet.

    Args:
        storage: the database.
        name: the study's name.
        conditions: those of this run.
        before_recording: the trace of this run is not known yet, so any will do.

    Raises:
        StudyError: the study is somebody else's, or was made under other conditions.
    """
    with database_errors(shown(storage)):
        if name not in study_names(storage):
            return None
        study = optuna.load_study(study_name=name, storage=storage, sampler=RandomSampler())
        trials = study.get_trials(deepcopy=False)
    if CONDITIONS not in study.user_attrs:
        if trials or len(study.directions) != len(objectives(conditions.obtained)):
            raise StudyError(
                f"Study '{name}' in {shown(storage)} was not made by autotune; {_new_name(storage, name)}"
            )
        return None  # Its making was cut short.
    stored = read_conditions(study)
    now = replace(conditions, trace_sha256=stored.trace_sha256) if before_recording else conditions
    differences = compare(stored, now)
    if differences and not trials:
        return None  # It holds nothing that could be mixed with something else.
    if differences:
        raise StudyError(
            f"Study '{name}' was made under other conditions ({_listed(differences)}), and the two are not "
            f"mixed; {_new_name(storage, name)}"
        )
    return stored


def compare(stored: Conditions, now: Conditions) -> list[str]:
    """What differs between two conditions, one phrase each, with both values."""
    found = {}
    for names, one, other in (
        (_COMPARED, stored, now),
        (_COMPARED_ENVIRONMENT, stored.environment, now.environment),
    ):
        for name, title in names.items():
            before, after = getattr(one, name), getattr(other, name)
            if before != after:
                found[name] = f"{title}: {_brief(name, before)}, now {_brief(name, after)}"
    if "script" in found:  # which says more than the changed contents that go with it
        found.pop("script_sha256", None)
    return list(found.values())


def _listed(differences: Sequence[str]) -> str:
    more = len(differences) - SHOWN_DIFFERENCES
    return "; ".join([*differences[:SHOWN_DIFFERENCES], *([f"and {more} more"] if more > 0 else [])])


def enter(
    study: optuna.Study, space: SearchSpace, candidate: Candidate, measurement: Measurement, started: datetime
) -> None:
    """Store one finished trial, whole or not at all."""
    trial = finished_trial(space, candidate, measurement, penalty=_penalty(study, measurement))
    trial.datetime_start = started
    study.add_trial(trial)


def finished_trial(
    space: SearchSpace, candidate: Candidate, measurement: Measurement, *, penalty: Sequence[float]
) -> FrozenTrial:
    """The Optuna trial of a measurement.

    Out of memory is COMPLETE with finite values (`penalty`) and a violated constraint, because samplers
    ignore what has failed and would propose it again. The constraint is written a second time under the
    name that optuna-dashboard 0.21 reads. All other failures are FAIL.
    """
    out_of_memory = measurement.outcome is Outcome.OUT_OF_MEMORY
    row = Row(number=-1, role=candidate.role, settings=str(candidate.settings), measurement=measurement)
    found = point(row)
    values: Sequence[float] | None = list(penalty) if out_of_memory else None
    if found is not None:
        scales = [metric.scale for metric in objectives(measurement.obtained)]
        values = [value * scale for value, scale in zip(found, scales, strict=True)]
    parameters = candidate.parameters or {}
    attributes = {
        ROLE: str(candidate.role),
        SETTINGS: str(candidate.settings),
        MEASUREMENT: json.dumps(measurement.to_json()),
    }
    if measurement.reason:
        attributes["reason"] = measurement.reason
    violation = 1.0 if out_of_memory else 0.0
    complete = values is not None
    return create_trial(
        state=TrialState.COMPLETE if complete else TrialState.FAIL,
        values=values,
        params=parameters,
        distributions=space.distributions(parameters),
        user_attrs=attributes,
        constraints={OUT_OF_MEMORY: violation} if complete else None,
        system_attrs={"constraints": [violation]} if complete else None,
    )


def shown(storage: RDBStorage) -> str:
    """The database for people: no password, no driver."""
    url = storage.engine.url
    if url.get_backend_name() == "sqlite":
        return (url.database or "").removeprefix("file:")
    return url.render_as_string(hide_password=True)


def _penalty(study: optuna.Study, measurement: Measurement) -> list[float]:
    """Worst values, for out of memory: the whole device, full fragmentation, the slowest trial so far."""
    memory, fragmentation, seconds = objectives(measurement.obtained)
    slowest = [trial.values[2] for trial in study.get_trials(deepcopy=False) if trial.values]
    total = measurement.environment.device_total_bytes or measurement.memory_limit_bytes or 0
    return [total * memory.scale, fragmentation.scale, max(slowest, default=seconds.scale)]


def _create_or_load(storage: RDBStorage, name: str, num_objectives: int) -> optuna.Study:
    try:
        return optuna.create_study(
            study_name=name,
            storage=storage,
            sampler=RandomSampler(),
            directions=["minimize"] * num_objectives,
        )
    except DuplicatedStudyError:
        return optuna.load_study(study_name=name, storage=storage, sampler=RandomSampler())


def _begin(study: optuna.Study, conditions: Conditions) -> None:
    """Write what makes a study ours; the conditions last, because they mark it as complete."""
    name_metrics(study, objectives(conditions.obtained))
    study.set_user_attr(CONDITIONS, json.dumps(conditions.to_json()))


def name_metrics(study: optuna.Study, metrics: Sequence[Metric]) -> None:
    """Have optuna-dashboard show the study's values under their names and units."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        study.set_metric_names([metric.title for metric in metrics])


def _new_name(storage: RDBStorage, name: str) -> str:
    names = set(study_names(storage))
    number = next(number for number in range(2, len(names) + 3) if f"{name}-{number}" not in names)
    return f"start anew with --study {name}-{number}."


def _last_touched(summary: optuna.study.StudySummary) -> tuple[datetime, int]:
    return summary.datetime_start or datetime.min, summary._study_id


def _brief(name: str, value: Any) -> str:
    if value is None:
        return "none"
    if name.endswith("_bytes"):
        return format_bytes(value)
    if isinstance(value, tuple):
        value = " ".join(map(str, value)) or "none"
    text = str(value)[:SHOWN_DIGITS] if name.endswith("_sha256") else str(value)
    # The end of a path tells more than its beginning.
    return text if len(text) <= SHOWN_LETTERS else f"…{text[-SHOWN_LETTERS + 1 :]}"
