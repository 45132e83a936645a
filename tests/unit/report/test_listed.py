"""A database's studies in a line each."""

from __future__ import annotations

import json

import optuna

from autotune.report.listed import Listed, document, lines, listed
from autotune.report.stored import CONDITIONS


def test_a_line_names_the_study_its_trials_and_what_was_tuned() -> None:
    found = [
        Listed(study="train", trials=60, obtained="measured", tuned="train.py --large"),
        Listed(study="a\x1b[31m", trials=1, obtained="estimated", tuned="t.npz"),
    ]
    assert lines(found) == [
        "train   60 trials  measured   train.py --large",
        "a�[31m   1 trial   estimated  t.npz",
    ]
    assert document(found)[0] == {
        "study": "train", "trials": 60, "obtained": "measured", "tuned": "train.py --large"
    }  # fmt: skip
    assert lines([]) == []


def test_a_study_of_another_version_is_listed_too() -> None:
    study = optuna.create_study(study_name="old", directions=["minimize"] * 3)
    study.set_user_attr(CONDITIONS, json.dumps({"format": 99}))
    assert lines([listed(study)]) == ["old  0 trials  written by another version of autotune"]
