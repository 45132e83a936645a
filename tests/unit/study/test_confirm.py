"""Repeated defaults and confirmed finalists: in turn, continued after a stop, and on no front."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import optuna
import pytest

from autotune.measurement import Measurement, Obtained, Outcome
from autotune.report.confirmed import MORE_STEPS, confirmations, confirmed_choice, growth, sentence
from autotune.report.pick import Choice, Rule
from autotune.report.reasons import why
from autotune.report.stored import Conditions, Role, read_rows, searched
from autotune.report.summary import document, summarise
from autotune.settings import AllocatorSettings
from autotune.study.book import enter, open_study
from autotune.study.candidates import candidate, first_candidates
from autotune.study.confirm import confirm
from autotune.study.loop import Plan, run_trials
from autotune.study.space import SearchSpace
from autotune.study.storage import open_storage
from tests.fakes import H200, FakeRunner, measurement

SPACE = SearchSpace(torch_version=(2, 14), limited=False)
EXPANDABLE = "expandable_segments:True"


def timed(reserved: float, seconds: float, outcome: Outcome = Outcome.COMPLETED) -> Measurement:
    return measurement(reserved=reserved, seconds=[seconds] * 5, obtained=Obtained.MEASURED, outcome=outcome)


class Runner(FakeRunner):
    """A fake that remembers how many steps each run was to measure."""

    def __init__(self, table: dict[str, Measurement] | None = None) -> None:
        super().__init__(table, obtained=Obtained.MEASURED)
        self.steps: list[int | None] = []

    def measure(self, settings, *, number, measured_steps=None):  # type: ignore[no-untyped-def]
        self.steps.append(measured_steps)
        return super().measure(settings, number=number)


@pytest.fixture
def study(tmp_path: Path) -> optuna.Study:
    conditions = Conditions(obtained=Obtained.MEASURED, environment=H200, measured_steps=20)
    return open_study(open_storage(f"sqlite:///{tmp_path / 'a.db'}"), "train", conditions)


def plan(trials: int) -> Plan:
    return Plan(space=SPACE, first=first_candidates(SPACE), trials=trials, seed=0, baselines=3)


def test_the_defaults_run_three_times_spread_over_a_measured_study(study: optuna.Study) -> None:
    runner = Runner()
    run_trials(study, runner, plan(24))
    rows = read_rows(study)
    assert len(rows) == 26
    assert len(searched(rows)) == 24
    numbers = [row.number for row in rows if row.settings == ""]
    assert numbers[0] == 0
    assert all(later - earlier >= 8 for earlier, later in pairwise(numbers))
    assert len(numbers) == 3


def test_a_short_study_repeats_them_at_its_end(study: optuna.Study) -> None:
    run_trials(study, runner := Runner(), plan(3))
    assert [settings == "" for settings in runner.asked] == [True, False, False, True, True]
    run_trials(study, again := Runner(), plan(3))
    assert again.asked == []


def test_defaults_that_run_out_of_memory_are_not_repeated(study: optuna.Study) -> None:
    run_trials(study, runner := Runner({"": timed(1, 1, Outcome.OUT_OF_MEMORY)}), plan(6))
    assert runner.asked.count("") == 1


def test_repetitions_are_on_no_front_and_not_recommended(study: optuna.Study) -> None:
    runner = Runner({"": timed(10, 1.0), EXPANDABLE: timed(6, 1.0)})
    run_trials(study, runner, plan(2))
    confirm(study, Runner({"": timed(10, 0.1), EXPANDABLE: timed(6, 0.1)}), SPACE, rounds=3)
    found = document(summarise(study))
    assert (found["baseline"], found["recommended"], found["front"]) == (0, 1, [1])
    assert [trial["role"] for trial in found["trials"]].count("confirm") == 6


def test_finalists_run_in_turn_with_more_steps(study: optuna.Study) -> None:
    run_trials(study, Runner({"": timed(10, 1.0), EXPANDABLE: timed(6, 1.0)}), plan(2))
    confirm(study, runner := Runner(), SPACE, rounds=2)
    assert runner.asked == ["", EXPANDABLE, "", EXPANDABLE]
    assert set(runner.steps) == {MORE_STEPS * 20}


@pytest.mark.parametrize("cut", range(1, 6))
def test_a_confirmation_cut_short_is_completed_not_repeated(study: optuna.Study, cut: int) -> None:
    run_trials(study, Runner({"": timed(10, 1.0), EXPANDABLE: timed(6, 1.0)}), plan(2))

    class Stops(Runner):
        def measure(self, settings, *, number, measured_steps=None):  # type: ignore[no-untyped-def]
            if len(self.asked) == cut:
                raise KeyboardInterrupt
            return super().measure(settings, number=number)

    first, second = Stops(), Runner()
    with pytest.raises(KeyboardInterrupt):
        confirm(study, first, SPACE, rounds=3)
    confirm(study, second, SPACE, rounds=3)
    assert first.asked + second.asked == ["", EXPANDABLE] * 3
    confirm(study, third := Runner(), SPACE, rounds=3)
    assert third.asked == []


def test_what_was_confirmed_is_said_with_its_interval(study: optuna.Study) -> None:
    run_trials(study, Runner({"": timed(10, 1.0), EXPANDABLE: timed(6, 1.0)}), plan(2))
    speeds = iter([1.0, 1.01, 1.02, 1.0, 0.99, 1.01])

    class Varies(Runner):
        def measure(self, settings, *, number, measured_steps=None):  # type: ignore[no-untyped-def]
            return timed(6.0 if str(settings) else 10.0, next(speeds))

    confirm(study, Varies(), SPACE, rounds=3)
    (found,) = confirmations(read_rows(study))
    assert found.memory is not None
    assert found.memory.ratio == pytest.approx(0.6)
    text = sentence(found)
    assert "peak reserved −40.0 % in every one" in text
    assert "no difference beyond noise" in text


def test_a_finalist_that_fails_is_said(study: optuna.Study) -> None:
    run_trials(study, Runner({"": timed(10, 1.0), EXPANDABLE: timed(6, 1.0)}), plan(2))
    confirm(study, Runner({EXPANDABLE: timed(6, 1.0, Outcome.CRASHED)}), SPACE, rounds=2)
    (found,) = confirmations(read_rows(study))
    assert "2 of its runs did not complete" in sentence(found)


TUNED = "expandable_segments:True,roundup_power2_divisions:8"


def recommended_after(study: optuna.Study, confirmed: dict[str, Measurement], rounds: int = 3) -> str:
    """What is recommended once the finalists of a search that liked TUNED best are confirmed."""
    searched_for = {"": timed(10, 1.0), EXPANDABLE: timed(6, 1.0), TUNED: timed(5, 1.0)}
    first = [candidate(SPACE, Role.SAMPLED, AllocatorSettings.parse(text)) for text in searched_for]
    roles = (Role.DEFAULT, Role.EXPANDABLE, Role.SAMPLED)
    first = [replace(one, role=role) for one, role in zip(first, roles, strict=True)]
    run_trials(study, Runner(searched_for), Plan(space=SPACE, first=first, trials=3, seed=0))
    assert summarise(study).recommended.settings == TUNED  # type: ignore[union-attr]
    confirm(study, Runner({**searched_for, **confirmed}), SPACE, rounds=rounds)
    found = summarise(study).recommended
    assert found is not None
    return found.settings


def reason(study: optuna.Study) -> str:
    choice = summarise(study).choice
    return why(choice) if choice is not None else ""


def test_what_is_confirmed_stays_recommended(study: optuna.Study) -> None:
    assert recommended_after(study, {TUNED: timed(5.5, 1.0)}) == TUNED
    assert reason(study).startswith("of the finalists that save memory beyond noise")


@pytest.mark.parametrize("tuned", [timed(7, 1.0), timed(10, 1.0), timed(5, 1.0, Outcome.OUT_OF_MEMORY)])
def test_a_finalist_that_turns_out_better_takes_its_place(study: optuna.Study, tuned: Measurement) -> None:
    assert recommended_after(study, {TUNED: tuned}) == EXPANDABLE


def test_of_finalists_that_gain_alike_the_simplest_is_recommended(study: optuna.Study) -> None:
    assert recommended_after(study, {TUNED: timed(5.95, 1.0)}) == EXPANDABLE
    assert reason(study).endswith("the simplest settings within 1 % of the least memory.")


def test_where_the_defaults_do_not_run_the_search_s_choice_stays(study: optuna.Study) -> None:
    broken = timed(10, 1.0, Outcome.OUT_OF_MEMORY)
    assert recommended_after(study, {"": broken, TUNED: timed(5.95, 1.0)}) == TUNED


def test_where_the_defaults_do_not_run_either_a_choice_that_fails_is_replaced(study: optuna.Study) -> None:
    broken = timed(10, 1.0, Outcome.OUT_OF_MEMORY)
    assert recommended_after(study, {"": broken, TUNED: broken}) == EXPANDABLE
    assert reason(study).endswith("this one ran every time in the confirmation, and the defaults did not.")


def test_if_nothing_holds_the_defaults_are_recommended(study: optuna.Study) -> None:
    assert recommended_after(study, {TUNED: timed(10, 1.0), EXPANDABLE: timed(10, 1.0)}) == ""
    assert reason(study).endswith(", which saves no memory beyond noise in the confirmation.")
    study_again = summarise(study)
    assert study_again.baseline is study_again.recommended


def test_a_choice_that_turns_out_slower_gives_way_to_one_that_costs_nothing(study: optuna.Study) -> None:
    assert recommended_after(study, {TUNED: timed(4, 1.3)}) == EXPANDABLE


def test_a_choice_with_a_price_stays_where_it_saves_more_than_it_costs(study: optuna.Study) -> None:
    assert recommended_after(study, {TUNED: timed(5, 1.3), EXPANDABLE: timed(10, 1.0)}) == TUNED
    assert "this one saves more than it costs in time" in reason(study)


def test_a_choice_that_costs_more_than_it_saves_is_overthrown(study: optuna.Study) -> None:
    assert recommended_after(study, {TUNED: timed(8, 1.3), EXPANDABLE: timed(10, 1.0)}) == ""
    assert "which costs more in time than it saves in the confirmation" in reason(study)


def with_slow_steps(reserved: float, tail: float) -> Measurement:
    steps = [1.0] * 36 + [tail] * 4
    return measurement("x", reserved=reserved, seconds=steps, obtained=Obtained.MEASURED)


def test_slow_steps_overthrow_a_choice_and_are_said(study: optuna.Study) -> None:
    confirmed = {
        "": with_slow_steps(10, 1.0),
        TUNED: with_slow_steps(5, 1.5),
        EXPANDABLE: with_slow_steps(6, 1.0),
    }
    assert recommended_after(study, confirmed) == EXPANDABLE
    assert reason(study) == (
        "the search chose trial 2, and the confirmation overrules it: of the finalists that save memory "
        "beyond noise in the confirmation and are not slower, the least memory."
    )
    said = [sentence(found) for found in confirmations(read_rows(study))]
    assert ["p95" in text for text in said] == [False, True]
    assert "its p95 +50.0 % in every one" in said[1]


@pytest.mark.parametrize(
    ("tuned", "expandable", "defaults", "expected"),
    [
        ((5, 1.3), (6, 1.0), (10, 1.0), EXPANDABLE),  # the fastest of those that fit, though not the smallest
        ((5, 1.0), (6, 1.0), (10, 1.0), TUNED),  # among equally fast ones the least memory
        ((5, 1.3), (6, 1.3), (10, 1.0), ""),  # the defaults, where everything else is slower
    ],
)
def test_under_a_limit_the_fastest_finalist_is_recommended(
    study: optuna.Study,
    tuned: tuple[float, float],
    expandable: tuple[float, float],
    defaults: tuple[float, float],
    expected: str,
) -> None:
    found = {TUNED: timed(*tuned), EXPANDABLE: timed(*expandable), "": timed(*defaults)}
    recommended_after(study, found)
    rows = read_rows(study)
    chosen = next(row for row in rows if row.settings == TUNED)
    choice = Choice(row=chosen, rule=Rule.FITS, yardstick=rows[0], allowed=1.0)
    picked = confirmed_choice(rows, choice, rows[0], limited=True)
    assert picked is not None
    assert picked.row.settings == expected
    assert why(picked).startswith("under a memory limit" if expected == TUNED else "the search chose trial")
    assert "than which no other is faster, the least memory" in why(picked)


def test_two_rounds_overthrow_nothing(study: optuna.Study) -> None:
    assert recommended_after(study, {TUNED: timed(10, 1.0)}, rounds=2) == TUNED


def test_after_a_longer_search_everything_is_confirmed_anew(study: optuna.Study) -> None:
    run_trials(study, Runner({"": timed(10, 1.0), EXPANDABLE: timed(6, 1.0)}), plan(2))
    confirm(study, Runner(), SPACE, rounds=1)
    run_trials(study, Runner({"max_split_size_mb:128": timed(20, 1.0)}), plan(3))
    assert confirmations(read_rows(study)) == []
    confirm(study, again := Runner(), SPACE, rounds=1)
    assert again.asked == ["", EXPANDABLE]


def enter_row(study: optuna.Study, role: Role, settings: str, found: Measurement) -> None:
    chosen = candidate(SPACE, role, AllocatorSettings.parse(settings))
    enter(study, SPACE, chosen, replace(found, settings=settings), datetime.now())


def estimated(reserved: float) -> Measurement:
    return measurement(reserved=reserved, seconds=0.1, obtained=Obtained.ESTIMATED)


@pytest.mark.parametrize(
    ("longer", "recommended", "change"),
    [
        ((12, 8, 6), TUNED, "−50.0 %"),  # as in the search
        ((12, 8, 11), EXPANDABLE, "−8.3 %"),  # what the search found was fitted to the recorded steps
        ((12, 13, 14), "", "+16.7 %"),
    ],
)
def test_one_replay_of_a_longer_recording_decides(
    tmp_path: Path, longer: tuple[float, float, float], recommended: str, change: str
) -> None:
    conditions = Conditions(obtained=Obtained.ESTIMATED, environment=H200, measured_steps=20)
    study = open_study(open_storage(f"sqlite:///{tmp_path / 'a.db'}"), "train", conditions)
    finalists = {"": Role.DEFAULT, EXPANDABLE: Role.EXPANDABLE, TUNED: Role.SAMPLED}
    for (settings, role), memory in zip(finalists.items(), (10, 8, 6), strict=True):
        enter_row(study, role, settings, estimated(memory))
    table = {text: estimated(memory) for text, memory in zip(finalists, longer, strict=True)}
    runner = FakeRunner(table, obtained=Obtained.ESTIMATED)
    confirm(study, runner, SPACE, rounds=1)
    assert runner.asked == list(finalists)
    found = summarise(study)
    assert found.recommended is not None
    assert found.recommended.settings == recommended
    assert found.choice is not None
    overruled = "and a check overrules it: by the same rule this one is the better on a recording"
    assert (overruled in why(found.choice)) is (recommended != TUNED)
    checked = confirmations(found.rows)[1]
    how = f"Replayed on a recording with {MORE_STEPS} times the steps, against the defaults"
    assert sentence(checked) == f"{how}: peak reserved {change}."
    assert checked.title == "Checked"


def test_on_a_longer_recording_time_counts_as_in_the_search(tmp_path: Path) -> None:
    conditions = Conditions(obtained=Obtained.ESTIMATED, environment=H200, measured_steps=20)
    study = open_study(open_storage(f"sqlite:///{tmp_path / 'a.db'}"), "train", conditions)

    def found(memory: float, seconds: float) -> Measurement:
        return measurement(reserved=memory, seconds=seconds, obtained=Obtained.ESTIMATED)

    table = {"": found(10, 0.1), EXPANDABLE: found(5, 9.0), TUNED: found(6, 0.1)}
    for settings, role in (("", Role.DEFAULT), (EXPANDABLE, Role.EXPANDABLE), (TUNED, Role.SAMPLED)):
        enter_row(study, role, settings, table[settings])
    confirm(study, FakeRunner(table, obtained=Obtained.ESTIMATED), SPACE, rounds=1)
    recommended = summarise(study).recommended
    assert recommended is not None
    assert recommended.settings == TUNED  # though expandable segments alone need less


def test_a_peak_that_rises_with_the_steps_is_told_and_one_that_stays_is_not(study: optuna.Study) -> None:
    enter_row(study, Role.DEFAULT, "", timed(10, 1.0))
    enter_row(study, Role.EXPANDABLE, EXPANDABLE, timed(8, 1.0))
    assert growth(read_rows(study)) is None
    confirm(study, Runner({"": timed(12, 1.0), EXPANDABLE: timed(8.1, 1.0)}), SPACE, rounds=3)
    told = growth(read_rows(study))
    assert told is not None
    assert "(the defaults 12.0 GiB instead of 10.0 GiB)" in told
