"""A measured study that is led by predictions: what it tries, what it skips, and when it has enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import optuna
import pytest

from autotune.measurement import Measurement, Obtained, Outcome
from autotune.report.folklore import folklore
from autotune.report.stored import Conditions, Role, Row, read_rows
from autotune.report.summary import summarise
from autotune.settings import AllocatorSettings
from autotune.study.book import open_study
from autotune.study.candidates import candidate, first_candidates
from autotune.study.finalists import finalists, in_order
from autotune.study.guide import Guide
from autotune.study.loop import Ending, Plan, run_trials
from autotune.study.predict import Predictor
from autotune.study.screen import screen
from autotune.study.screened import Screened
from autotune.study.space import SearchSpace
from autotune.study.stopping import LEAST_TIME_SHARE, matches, nothing_to_gain, time_noise
from autotune.study.storage import open_storage
from autotune.units import GIB
from tests.fakes import H200, measurement
from tests.traces import varying

SPACE = SearchSpace(torch_version=(2, 14), limited=False, split_sizes_mb=(20, 40, 60))
WITHOUT_EXPANDABLE = replace(SPACE, without=frozenset({"expandable_segments"}))
"""Where the best settings are none of the first, so that screened ones have to be measured."""
DEFAULTS = AllocatorSettings()
STEP_SECONDS = 0.1


class FakeGpu:
    """Measures what the replay predicts, and a step time that its driver calls lengthen."""

    def __init__(
        self, predictor: Predictor, *, broken: Sequence[str] = (), seconds_count: bool = True
    ) -> None:
        self.obtained = Obtained.MEASURED
        self.environment = H200
        self.asked: list[str] = []
        self._predictor = predictor
        self._broken = broken
        self._scale = 1.0 if seconds_count else 0.0

    def measure(self, settings: AllocatorSettings, *, number: int) -> Measurement:
        self.asked.append(str(settings))
        if any(option in str(settings) for option in self._broken):
            return replace(failing("No IPC here."), settings=str(settings))
        found = self._predictor.predict(settings)
        seconds = STEP_SECONDS + self._scale * found.seconds / self._predictor.num_steady_steps
        return replace(
            found.measurement, obtained=Obtained.MEASURED, allocator_seconds=None, step_seconds=(seconds,) * 5
        )

    def close(self) -> None:
        pass


def failing(reason: str) -> Measurement:
    return measurement(outcome=Outcome.CRASHED, reason=reason, obtained=Obtained.MEASURED)


def screened(space: SearchSpace) -> Guide:
    predictor = Predictor(varying(), torch_version=(2, 14), warmup_steps=2)
    screening = screen(predictor, space, most=400)
    anchors = [one.settings for one in first_candidates(space)]
    members = finalists(predictor, space, screening, anchors=anchors)
    return Guide(
        predictor=predictor,
        screened=Screened(num_settings=400, num_behaviours=len(screening.classes), members=tuple(members)),
    )


@pytest.fixture(scope="module")
def guide() -> Guide:
    return screened(SPACE)


@pytest.fixture(scope="module")
def stiff() -> Guide:
    """Without expandable segments."""
    return screened(WITHOUT_EXPANDABLE)


@pytest.fixture
def study(tmp_path: Path) -> optuna.Study:
    conditions = Conditions(obtained=Obtained.MEASURED, environment=H200)
    return open_study(open_storage(f"sqlite:///{tmp_path / 'autotune.db'}"), "train", conditions)


def plan(guide: Guide, *, trials: int = 40, early_stop: bool = True, space: SearchSpace = SPACE) -> Plan:
    first = [one for one in first_candidates(space) if one.role is not Role.SAMPLED]
    baseline = [one for one in first if one.role is not Role.FOLKLORE]
    tried = {guide.behaviour(one.settings) for one in baseline}
    ordered = in_order(guide.screened.members, guide.predictor.predict(DEFAULTS), tried=tried, limited=False)
    screened = [candidate(space, Role.SCREENED, found.settings) for found in ordered]
    folklore = [one for one in first if one.role is Role.FOLKLORE]
    return Plan(
        space=space,
        first=[*baseline, *screened, *folklore],
        trials=trials,
        seed=0,
        guide=guide,
        early_stop=early_stop,
    )


def test_it_stops_when_the_predicted_front_is_measured_and_has_found_the_best(
    study: optuna.Study, stiff: Guide
) -> None:
    gpu, planned = FakeGpu(stiff.predictor), plan(stiff, space=WITHOUT_EXPANDABLE)
    assert run_trials(study, gpu, planned) is Ending.NOTHING_TO_GAIN
    rows = read_rows(study)
    assert 3 < len(rows) < 10
    best = min(found.memory for found in stiff.screened.members)
    assert min(row.measurement.peak_reserved_bytes or 0 for row in rows) <= 1.005 * best
    assert run_trials(study, gpu, planned) is Ending.NOTHING_TO_GAIN
    assert len(read_rows(study)) == len(rows)


def test_it_measures_no_member_that_a_row_matches_but_for_the_noise(
    study: optuna.Study, stiff: Guide
) -> None:
    gpu, planned = FakeGpu(stiff.predictor), plan(stiff, space=WITHOUT_EXPANDABLE)
    run_trials(study, gpu, planned)
    measured = [row for row in read_rows(study) if row.role is Role.SCREENED]
    skipped = {str(one.settings) for one in planned.first if one.role is Role.SCREENED} - set(gpu.asked)
    # In this program driver calls take less than a thousandth of a step: memory alone can be gained.
    reserved = [row.measurement.peak_reserved_bytes or 0 for row in measured]
    assert len(reserved) == 1
    assert skipped
    assert all(
        stiff.predictor.predict(AllocatorSettings.parse(text)).memory > reserved[0] for text in skipped
    )


def test_without_early_stop_every_screened_candidate_is_measured(study: optuna.Study, stiff: Guide) -> None:
    gpu, planned = FakeGpu(stiff.predictor), plan(stiff, early_stop=False, space=WITHOUT_EXPANDABLE)
    run_trials(study, gpu, planned)
    assert {str(one.settings) for one in planned.first if one.role is Role.SCREENED} <= set(gpu.asked)


def test_members_worth_a_trial_are_measured_though_nobody_enqueued_them(
    study: optuna.Study, stiff: Guide
) -> None:
    planned = plan(stiff, space=WITHOUT_EXPANDABLE)
    planned = replace(planned, first=[one for one in planned.first if one.role is not Role.SCREENED])
    assert run_trials(study, FakeGpu(stiff.predictor), planned) is Ending.NOTHING_TO_GAIN
    roles = [row.role for row in read_rows(study)]
    assert Role.SCREENED in roles
    assert Role.SAMPLED not in roles


def test_a_member_that_contains_a_dead_end_is_no_longer_untested(stiff: Guide) -> None:
    member = next(
        found
        for found in stiff.screened.members
        if found.settings.large_segment_size_mb and found.settings.roundup_power2_divisions
    )
    part = f"large_segment_size_mb:{member.settings.large_segment_size_mb}"
    crashed = Row(
        number=1, role=Role.SAMPLED, settings=part, measurement=replace(failing("No."), settings=part)
    )
    assert stiff.behaviour(AllocatorSettings.parse(part)) != member.behaviour
    assert member in stiff.untested([row(0, "", 5, 1.0)])
    assert member not in stiff.untested([row(0, "", 5, 1.0), crashed])


def test_under_a_limit_what_would_be_slower_than_the_fastest_is_worth_no_trial(stiff: Guide) -> None:
    least = min(stiff.screened.members, key=lambda found: found.memory)
    alone = Screened(num_settings=400, num_behaviours=2, members=(least,))
    predictor = Predictor(varying(), torch_version=(2, 14), warmup_steps=2, memory_limit=64 * GIB)
    memory = predictor.predict(DEFAULTS).memory / GIB
    free, limited = (replace(stiff, screened=alone, predictor=one) for one in (stiff.predictor, predictor))
    for quickest, ends in ((0.1, False), (0.05, True)):
        rows = [row(0, "", memory, 0.1), row(1, "max_split_size_mb:777", memory, quickest)]
        assert not nothing_to_gain(rows, free)
        assert nothing_to_gain(rows, limited) is ends


def test_an_unlucky_time_of_the_best_row_keeps_nothing_going(stiff: Guide) -> None:
    best = min(stiff.screened.members, key=lambda found: found.memory)
    memory = stiff.predictor.predict(DEFAULTS).memory / GIB
    defaults = [row(number, "", memory, seconds) for number, seconds in enumerate([0.090, 0.100, 0.108])]
    assert time_noise(defaults) == pytest.approx(0.18)
    for seconds, ends in ((0.117, True), (0.13, False)):
        rows = [*defaults, row(3, str(best.settings), best.memory / GIB, seconds)]
        assert nothing_to_gain(rows, stiff) is ends


def test_without_early_stop_it_goes_on_and_measures_no_behaviour_twice(
    study: optuna.Study, guide: Guide
) -> None:
    gpu = FakeGpu(guide.predictor)
    assert run_trials(study, gpu, plan(guide, early_stop=False)) is Ending.BUDGET_SPENT
    keys = [guide.behaviour(AllocatorSettings.parse(text)) for text in gpu.asked]
    assert len(set(keys)) == len(keys) == 40


def test_the_baseline_comes_first_then_the_screened_then_folklore(study: optuna.Study, guide: Guide) -> None:
    run_trials(study, FakeGpu(guide.predictor), plan(guide, early_stop=False))
    roles = [row.role for row in read_rows(study)]
    assert roles[:2] == [Role.DEFAULT, Role.EXPANDABLE]
    first_folklore = roles.index(Role.FOLKLORE)
    assert set(roles[2:first_folklore]) == {Role.SCREENED}
    assert Role.SCREENED not in roles[first_folklore:]


def test_folklore_that_behaves_like_a_trial_is_not_run_and_the_report_says_so(
    study: optuna.Study, guide: Guide
) -> None:
    gpu = FakeGpu(guide.predictor)
    run_trials(study, gpu, plan(guide))
    # No block of this trace is as large as 128 MB.
    assert "max_split_size_mb:128" not in gpu.asked
    found = summarise(study)
    assert found.same_as["max_split_size_mb:128"] == 0
    lines = folklore(found)
    assert any(line.startswith("max_split_size_mb:128: behaves like trial 0") for line in lines)
    measured = [row.settings for row in found.rows if row.role is Role.FOLKLORE]
    assert len(lines) == len(measured) + len(found.same_as)
    assert all(any(line.startswith(settings) for line in lines) for settings in measured)


def test_interrupted_and_continued_it_tries_the_same(tmp_path: Path, guide: Guide) -> None:
    conditions = Conditions(obtained=Obtained.MEASURED, environment=H200)
    storage = open_storage(f"sqlite:///{tmp_path / 'autotune.db'}")
    whole, cut = FakeGpu(guide.predictor), FakeGpu(guide.predictor)
    run_trials(open_study(storage, "whole", conditions), whole, plan(guide, trials=24, early_stop=False))
    for trials in (3, 9, 16, 24):
        run_trials(open_study(storage, "cut", conditions), cut, plan(guide, trials=trials, early_stop=False))
    assert cut.asked == whole.asked


def test_where_expandable_segments_crash_nothing_else_with_them_is_tried(
    study: optuna.Study, guide: Guide
) -> None:
    gpu = FakeGpu(guide.predictor, broken=["expandable_segments:True"])
    run_trials(study, gpu, plan(guide, early_stop=False))
    assert [text for text in gpu.asked if "expandable" in text] == ["expandable_segments:True"]


def row(number: int, settings: str, memory: float, seconds: float | list[float]) -> Row:
    measured = measurement(settings, reserved=memory, seconds=seconds, obtained=Obtained.MEASURED)
    return Row(
        number=number,
        role=Role.SAMPLED if settings else Role.DEFAULT,
        settings=settings,
        measurement=measured,
    )


def test_a_row_matches_a_prediction_that_is_better_by_no_more_than_the_noise() -> None:
    gib = 2.0**30
    assert matches((10.04 * gib, 0.1, 1.0), (10 * gib, 0.1, 1.0), time_share=0.01)
    assert not matches((10.06 * gib, 0.1, 1.0), (10 * gib, 0.1, 1.0), time_share=0.01)
    assert matches((9 * gib, 0.9, 1.01), (10 * gib, 0.1, 1.0), time_share=0.01)
    assert not matches((9 * gib, 0.1, 1.02), (10 * gib, 0.1, 1.0), time_share=0.01)


def test_noise_of_time_is_the_spread_of_the_defaults_repetitions() -> None:
    assert time_noise([]) is None
    assert time_noise([row(0, "", 5, 1.0), row(5, "", 5, 1.06)]) == pytest.approx(0.06 / 1.03)


def test_with_one_run_of_the_defaults_noise_is_the_spread_of_its_steps_but_never_nothing() -> None:
    assert time_noise([row(0, "", 5, [0.9, 1.0, 1.0, 1.1, 1.2])]) == pytest.approx(1.4826 * 0.1)
    assert time_noise([row(0, "", 5, [1.0, 1.0])]) == LEAST_TIME_SHARE


def test_predictions_that_are_not_trusted_stop_nothing(study: optuna.Study, guide: Guide) -> None:
    run_trials(study, FakeGpu(guide.predictor), plan(guide))
    rows = read_rows(study)
    assert nothing_to_gain(rows, guide)
    assert not nothing_to_gain(rows, replace(guide, trusted=False))
    assert not nothing_to_gain([], guide)


def test_expected_time_follows_what_the_rows_showed(guide: Guide) -> None:
    slow = max(guide.screened.members, key=lambda found: found.seconds)
    steps = guide.predictor.num_steady_steps
    for seconds_count, share in ((True, 1.0), (False, 0.0)):
        gpu = FakeGpu(guide.predictor, seconds_count=seconds_count)
        rows = [
            Row(
                number=number,
                role=Role.SAMPLED if number else Role.DEFAULT,
                settings=str(settings),
                measurement=gpu.measure(settings, number=number),
            )
            for number, settings in enumerate(
                [DEFAULTS, *(one.settings for one in guide.screened.members[:8])]
            )
        ]
        expected = guide.expected(slow, rows, Obtained.MEASURED)
        assert expected is not None
        assert expected[2] == pytest.approx(STEP_SECONDS + share * slow.seconds / steps)
        assert expected[0] == slow.memory
