"""What is saved for optuna-dashboard."""

from __future__ import annotations

import warnings

import optuna
import pytest

from autotune.report.board import save_to_dashboard
from autotune.report.stored import Role
from tests.fakes import measurement, row, summary


@pytest.fixture
def study() -> optuna.Study:
    return optuna.create_study(directions=["minimize"] * 3)


def attributes(study: optuna.Study) -> dict[str, object]:
    return study._storage.get_study_system_attrs(study._study_id)


def test_note_and_figures_are_saved_and_replaced(study: optuna.Study) -> None:
    found = summary(
        row(0, "", Role.DEFAULT), row(1, "max_split_size_mb:99", measured=measurement(reserved=3))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_to_dashboard(study, found)
        before = set(attributes(study))
        save_to_dashboard(study, found)
    assert set(attributes(study)) == before
    stored = " ".join(str(value) for value in attributes(study).values())
    assert "max_split_size_mb" in stored
    assert "peak reserved (GiB)" in stored


def test_a_study_without_results_gets_only_a_note(study: optuna.Study) -> None:
    save_to_dashboard(study, summary())
    assert "nothing to recommend" in str(attributes(study))
