"""The loop: baseline first, nothing twice, nothing lost, and what stops it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest

from autotune.errors import WorkFailedError
from autotune.measurement import Measurement, Obtained, Outcome
from autotune.report.stored import Conditions, Role, read_rows
from autotune.report.summary import summarise
from autotune.study.book import open_study
from autotune.study.candidates import first_candidates
from autotune.study.loop import Ending, Plan, run_trials
from autotune.study.space import SearchSpace
from autotune.study.storage import open_storage
from tests.fakes import H200, FakeRunner, measurement

SPACE = SearchSpace(torch_version=(2, 14), limited=False)
SMALL = SearchSpace(
    torch_version=(2, 10),
    limited=False,
    without=frozenset({"max_split_size_mb", "roundup_power2_divisions", "large_segment_size_mb"}),
)


class Studies:
    """Studies in one database file."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'autotune.db'}"

    def open(self, name: str = "train", obtained: Obtained = Obtained.REPLAYED) -> optuna.Study:
        return open_study(open_storage(self.url), name, Conditions(obtained=obtained, environment=H200))


@pytest.fixture
def studies(tmp_path: Path) -> Iterator[Studies]:
    yield Studies(tmp_path)


def plan(trials: int = 20, space: SearchSpace = SPACE) -> Plan:
    return Plan(space=space, first=first_candidates(space), trials=trials, seed=0)


def failing(outcome: Outcome, reason: str = "It broke.") -> Measurement:
    return measurement(outcome=outcome, reason=reason)


def test_sixty_trials_are_sixty_different_settings(studies: Studies) -> None:
    study, runner = studies.open(), FakeRunner()
    assert run_trials(study, runner, plan(60)) is Ending.BUDGET_SPENT
    assert len(read_rows(study)) == len(set(runner.asked)) == 60
    assert runner.asked[:2] == ["", "expandable_segments:True"]
    assert all(trial.state.is_finished() for trial in study.trials)


def test_what_is_stored_is_what_was_measured(studies: Studies) -> None:
    study = studies.open()
    measured = measurement(reserved=7.5, allocated=6.0, seconds=0.25)
    run_trials(study, FakeRunner({"": measured}), plan(1))
    (row,) = read_rows(study)
    assert (row.role, row.measurement) == (Role.DEFAULT, measured)
    assert study.trials[0].values == pytest.approx([7.5, 20.0, 250.0])
    assert study.metric_names == [
        "peak reserved (GiB)",
        "fragmentation (%)",
        "time in driver calls after warm-up (ms)",
    ]


def test_interrupted_anywhere_and_continued_gives_the_same_trials(studies: Studies) -> None:
    whole = FakeRunner()
    run_trials(studies.open("whole"), whole, plan(30))

    def stop(settings: str, number: int) -> None:
        if number in (0, 7, 8, 19) and number not in stopped:
            stopped.add(number)
            raise KeyboardInterrupt

    stopped: set[int] = set()
    while True:
        try:
            run_trials(studies.open("cut"), FakeRunner(before=stop), plan(30))
            break
        except KeyboardInterrupt:
            continue
    assert len(stopped) == 4
    assert [row.settings for row in read_rows(studies.open("cut"))] == whole.asked


def test_a_finished_study_measures_nothing_more(studies: Studies) -> None:
    run_trials(studies.open(), FakeRunner(), plan(5))
    again = FakeRunner()
    run_trials(studies.open(), again, plan(5))
    assert again.asked == []


def test_a_small_space_ends_early_and_says_so(studies: Studies) -> None:
    study, runner = studies.open(), FakeRunner()
    assert run_trials(study, runner, plan(60, SMALL)) is Ending.SPACE_EXHAUSTED
    expected = {"", "expandable_segments:True"}
    expected |= {f"expandable_segments:True,roundup_power2_divisions:{n}" for n in (2, 4, 8, 16)} & set(
        runner.asked
    )
    assert set(runner.asked) == expected


def test_every_result_is_in_the_database_before_the_next_trial_begins(studies: Studies) -> None:
    study = studies.open()
    seen: list[int] = []
    runner = FakeRunner(before=lambda settings, number: seen.append(len(read_rows(studies.open()))))
    run_trials(study, runner, plan(6))
    assert seen == [0, 1, 2, 3, 4, 5]


def test_out_of_memory_is_complete_infeasible_and_finite(studies: Studies) -> None:
    study = studies.open()
    table = {"expandable_segments:True": failing(Outcome.OUT_OF_MEMORY, "No room.")}
    run_trials(study, FakeRunner(table), plan(4))
    trial = study.trials[1]
    assert trial.state is optuna.trial.TrialState.COMPLETE
    assert trial.values[0] == pytest.approx(H200.device_total_bytes / 2**30)  # type: ignore[operator]
    assert trial.constraints["out_of_memory"] > 0
    assert study.trials[0].constraints["out_of_memory"] <= 0
    assert 1 not in [best.number for best in study.best_trials]
    assert 1 not in [row.number for row in summarise(study).front]


@pytest.mark.parametrize("outcome", [Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.REJECTED])
def test_a_broken_trial_is_kept_with_its_reason_and_not_tried_again(
    studies: Studies, outcome: Outcome
) -> None:
    study = studies.open()
    run_trials(study, FakeRunner({"expandable_segments:True": failing(outcome, "Because.")}), plan(3))
    assert study.trials[1].state is optuna.trial.TrialState.FAIL
    assert study.trials[1].user_attrs["reason"] == "Because."
    later = FakeRunner()
    run_trials(studies.open(), later, plan(12))
    assert "expandable_segments:True" not in later.asked


@pytest.mark.parametrize("outcome", [Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.REJECTED])
def test_a_baseline_that_does_not_run_ends_the_study_and_is_measured_again(
    studies: Studies, outcome: Outcome
) -> None:
    runner = FakeRunner({"": failing(outcome, "No module named 'data'.")})
    with pytest.raises(WorkFailedError, match="defaults failed: No module named 'data'"):
        run_trials(studies.open(), runner, plan(10))
    assert runner.asked == [""]
    mended = FakeRunner()
    run_trials(studies.open(), mended, plan(10))
    assert mended.asked[0] == ""
    assert len(read_rows(studies.open())) == 10
    assert summarise(studies.open()).baseline.number == 1  # type: ignore[union-attr]


def test_a_baseline_without_gpu_memory_is_refused(studies: Studies) -> None:
    with pytest.raises(WorkFailedError, match="no GPU memory"):
        run_trials(studies.open(), FakeRunner({"": measurement(reserved=0, allocated=0)}), plan(5))


def test_a_baseline_out_of_memory_does_not_end_the_study(studies: Studies) -> None:
    study = studies.open()
    run_trials(study, FakeRunner({"": failing(Outcome.OUT_OF_MEMORY)}), plan(5))
    found = summarise(study)
    assert len(found.rows) == 5
    assert found.recommended is not None


def test_many_broken_trials_in_a_row_end_the_study(studies: Studies) -> None:
    class Breaks(FakeRunner):
        def measure(self, settings: Any, *, number: int) -> Measurement:
            return (
                failing(Outcome.CRASHED, "GPU lost.") if number else super().measure(settings, number=number)
            )

    with pytest.raises(WorkFailedError, match=r"5 trials in a row failed, .*GPU lost"):
        run_trials(studies.open(), Breaks(), plan(30))
    assert len(read_rows(studies.open())) == 6


def test_trials_carry_their_parameters_so_that_the_dashboard_can_plot_them(studies: Studies) -> None:
    study = studies.open()
    run_trials(study, FakeRunner(), plan(20))
    assert study.trials[1].params["expandable_segments"] is True
    assert all("roundup_power2_divisions" in trial.params for trial in study.trials)
