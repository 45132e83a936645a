"""Continuing a study only under the conditions it was made under."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from optuna import Study

from autotune.errors import StudyError
from autotune.measurement import Obtained
from autotune.report.stored import CONDITIONS, SCREEN_OF, Conditions, Role, read_conditions
from autotune.report.summary import summarise
from autotune.settings import AllocatorSettings
from autotune.study.book import SCREEN, enter, load_study, open_study, own_studies
from autotune.study.candidates import candidate
from autotune.study.space import SearchSpace
from autotune.study.storage import RDBStorage, open_storage, reading_errors
from tests.fakes import H200, measurement

MADE = Conditions(
    obtained=Obtained.MEASURED, script="/home/me/train.py", script_sha256="aa", arguments=("--small",),
    environment=H200, warmup_steps=5, measured_steps=20, seed=0, without=("expandable_segments",),
)  # fmt: skip


@pytest.fixture
def storage(tmp_path: Path) -> RDBStorage:
    return open_storage(f"sqlite:///{tmp_path / 'autotune.db'}")


def add_trial(study: Study) -> None:
    space = SearchSpace(torch_version=(2, 14), limited=False)
    first = candidate(space, Role.DEFAULT, AllocatorSettings())
    enter(study, space, first, measurement(obtained=Obtained.MEASURED), datetime(2026, 1, 1))


def test_a_study_without_a_trial_holds_nobody_back(storage: RDBStorage) -> None:
    open_study(storage, "train", MADE)
    other = replace(MADE, obtained=Obtained.ESTIMATED, script="/elsewhere.py")
    study = open_study(storage, "train", other)
    assert read_conditions(study) == other
    assert study.metric_names[2] == "time in driver calls after warm-up (ms)"


def test_conditions_survive_the_database(storage: RDBStorage) -> None:
    assert read_conditions(open_study(storage, "train", MADE)) == MADE


def test_the_same_conditions_continue_the_study(storage: RDBStorage) -> None:
    assert open_study(storage, "train", MADE)._study_id == open_study(storage, "train", MADE)._study_id


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"script": "/home/me/other.py", "script_sha256": "bb"},
            "script: /home/me/train.py, now /home/me/other.py",
        ),
        ({"script_sha256": "bb"}, "version of the script: aa, now bb"),
        ({"script_sha256": "b" * 64}, "version of the script: aa, now bbbbbbbbbbbb"),
        ({"arguments": ("--large",)}, "arguments of the script: --small, now --large"),
        ({"environment": replace(H200, gpu="NVIDIA A100")}, "GPU: NVIDIA H200, now NVIDIA A100"),
        ({"environment": replace(H200, torch="2.15.0")}, "torch: 2.14.1, now 2.15.0"),
        ({"environment": replace(H200, driver="600.1")}, "driver: 580.95.05, now 600.1"),
        ({"memory_limit_bytes": 1 << 30}, "memory limit: none, now 1.00 GiB"),
        ({"warmup_steps": 1}, "warm-up steps: 5, now 1"),
        ({"measured_steps": 1}, "measured steps: 20, now 1"),
        ({"seed": None}, "seed: 0, now none"),
        ({"without": ()}, "options left out: expandable_segments, now none"),
        ({"obtained": Obtained.REPLAYED}, "results: measured, now replayed"),
        ({"trace_sha256": "c" * 64}, "trace: none, now cccccccccccc"),
        (
            {"script": "/home/me/other.py", "arguments": (), "seed": 1, "warmup_steps": 1, "without": ()},
            "script: /home/me/train.py, now /home/me/other.py; arguments of the script: --small, now none; "
            "warm-up steps: 5, now 1; and 2 more",
        ),
        ({"script": f"/home/{'me/' * 40}new.py"}, f"script: /home/me/train.py, now …e/{'me/' * 17}new.py"),
    ],
)
def test_other_conditions_are_refused_with_what_differs_and_a_free_name(
    storage: RDBStorage, change: dict[str, Any], said: str
) -> None:
    add_trial(open_study(storage, "train", MADE))
    open_study(storage, "train-2", MADE)
    with pytest.raises(StudyError) as caught:
        open_study(storage, "train", replace(MADE, **change))
    assert str(caught.value) == (
        f"Study 'train' was made under other conditions ({said}), and the two are not mixed; "
        "start anew with --study train-3."
    )


@pytest.mark.parametrize(
    "change",
    [
        {"environment": replace(H200, tenants=("1 other (1 MiB)",))},
        {"notes": ("Something to say.",)},
        {"trace": "/elsewhere/train.trace"},
    ],
)
def test_conditions_that_change_no_number_do_not_matter(storage: RDBStorage, change: dict[str, Any]) -> None:
    open_study(storage, "train", MADE)
    open_study(storage, "train", replace(MADE, **change))


def test_a_study_of_a_later_format_is_refused(storage: RDBStorage) -> None:
    study = open_study(storage, "train", MADE)
    study.set_user_attr(CONDITIONS, json.dumps({**MADE.to_json(), "format": 99}))
    with pytest.raises(StudyError, match="another version of autotune"):
        open_study(storage, "train", MADE)


def test_a_study_whose_making_was_cut_short_is_completed(storage: RDBStorage) -> None:
    from optuna import create_study

    create_study(study_name="train", storage=storage, directions=["minimize"] * 3)
    assert read_conditions(open_study(storage, "train", MADE)) == MADE


def test_a_missing_study_is_named_together_with_those_there_are(storage: RDBStorage) -> None:
    with pytest.raises(StudyError, match="no study in"):
        load_study(storage, None)
    open_study(storage, "train", MADE)
    with pytest.raises(StudyError, match=r"no study 'tarin' in .* it has 'train'"):
        load_study(storage, "tarin")


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE study_directions SET direction = 7",
        "UPDATE trials SET datetime_start = 0",
        "UPDATE trials SET state = 0",
        "UPDATE study_user_attributes SET value_json = '[]' WHERE key = 'conditions'",
        "UPDATE study_user_attributes SET value_json = '\"[1]\"' WHERE key = 'conditions'",
    ],
)
def test_a_damaged_database_is_said_in_one_sentence(storage: RDBStorage, tmp_path: Path, damage: str) -> None:
    add_trial(open_study(storage, "train", MADE))
    with storage.engine.begin() as connection:
        connection.exec_driver_sql(damage)
    with pytest.raises(StudyError), reading_errors("autotune.db"):
        summarise(load_study(open_storage(f"sqlite:///{tmp_path / 'autotune.db'}", read_only=True), None))


def test_screenings_are_not_named_among_the_studies(storage: RDBStorage) -> None:
    open_study(storage, "train", MADE)
    open_study(storage, f"train{SCREEN}", MADE)
    with pytest.raises(StudyError, match="it has 'train'"):
        load_study(storage, "other")


def test_of_many_studies_the_newest_are_named_and_the_rest_counted(storage: RDBStorage) -> None:
    for number in range(8):
        open_study(storage, f"train-{number}", MADE)
    with pytest.raises(StudyError) as caught:
        load_study(storage, "other")
    assert str(caught.value).endswith(
        "it has 'train-7', 'train-6', 'train-5', 'train-4', 'train-3' and 3 more, which "
        "`autotune report --list` shows."
    )


def test_a_screening_and_somebody_elses_study_are_none_of_the_own_ones(storage: RDBStorage) -> None:
    from optuna import create_study

    open_study(storage, "train", MADE)
    open_study(storage, f"train{SCREEN}", MADE).set_user_attr(SCREEN_OF, "train")
    create_study(study_name="theirs", storage=storage)
    assert [study.study_name for study in own_studies(storage)] == ["train"]
