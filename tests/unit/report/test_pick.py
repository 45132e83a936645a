"""Which row is recommended, and which ones `--pick` names."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from autotune.errors import UsageError
from autotune.measurement import Measurement, Obtained, Outcome
from autotune.report.objectives import point
from autotune.report.pace import Noise, Pace
from autotune.report.pick import WORTHWHILE_SAVING, balanced_pick, memory_pick, speed_pick
from autotune.report.stored import Role, Row
from tests.fakes import measurement, row, summary


def default(reserved: float = 10.0, seconds: float = 1.0, outcome: Outcome = Outcome.COMPLETED) -> Row:
    return row(0, "", Role.DEFAULT, measured=timed(reserved, seconds, outcome))


def timed(reserved: float, seconds: float, outcome: Outcome = Outcome.COMPLETED) -> Measurement:
    return measurement(
        "x", reserved=reserved, seconds=[seconds] * 9, obtained=Obtained.MEASURED, outcome=outcome
    )


def other(number: int, reserved: float, seconds: float, outcome: Outcome = Outcome.COMPLETED) -> Row:
    return row(number, f"max_split_size_mb:{number}", measured=timed(reserved, seconds, outcome))


def picked(baseline: Row, *rows: Row, recorded_seconds: float | None = None) -> int:
    found = balanced_pick([baseline, *rows], baseline, pace=Pace(recorded_seconds=recorded_seconds))
    assert found is not None
    return found.number


def test_the_smallest_memory_at_the_same_speed_is_recommended() -> None:
    assert picked(default(), other(1, 8.0, 1.01), other(2, 7.0, 1.019), other(3, 5.0, 1.5)) == 2


def test_a_slower_row_is_recommended_only_if_it_saves_more_than_it_costs() -> None:
    assert picked(default(), other(1, 6.0, 1.3)) == 1
    assert picked(default(), other(1, 9.0, 1.3)) == 0


def test_nothing_saved_means_the_defaults() -> None:
    assert picked(default(), other(1, 9.95, 0.5), other(2, 12.0, 0.1)) == 0


def test_noise_widens_what_counts_as_equally_fast() -> None:
    steps = [1.0, 0.7, 1.3, 0.6, 1.4, 1.0, 0.8, 1.2]
    noisy = row(0, "", Role.DEFAULT, measured=measurement(seconds=steps, obtained=Obtained.MEASURED))
    assert picked(noisy, other(1, 7.0, 1.1), other(2, 9.0, 1.0)) == 1
    assert picked(default(), other(1, 7.0, 1.1), other(2, 9.0, 1.0)) == 2


def test_runs_tell_the_noise_where_there_are_several_and_steps_do_not() -> None:
    """Steps differ because batches do; the same steps come in every run."""
    steps = [1.0, 0.7, 1.3, 0.6, 1.4, 1.0, 0.8, 1.2]
    noisy = row(0, "", Role.DEFAULT, measured=measurement(seconds=steps, obtained=Obtained.MEASURED))
    rows = [noisy, other(1, 7.0, 1.1), other(2, 9.0, 1.0)]
    for spread, expected in ((0.0, 2), (0.12, 1)):
        found = balanced_pick(rows, noisy, pace=Pace(noise=Noise(median=spread)))
        assert found is not None
        assert found.number == expected


def with_tail(number: int, reserved: float, seconds: float, tail: float, settings: str = "") -> Row:
    steps = [seconds] * 36 + [tail] * 4
    role = Role.SAMPLED if settings else Role.DEFAULT
    found = measurement(reserved=reserved, seconds=steps, obtained=Obtained.MEASURED)
    return row(number, settings, role, measured=found)


def test_a_few_slow_steps_count_though_they_do_not_move_the_median() -> None:
    rows = [with_tail(0, 10, 1, 1), with_tail(1, 6, 1, 2, "a:1"), with_tail(2, 7, 1, 1.05, "a:2")]
    found = balanced_pick(rows, rows[0], pace=Pace(noise=Noise(median=0.0, tail=0.0)))
    assert found is rows[2]
    found = balanced_pick(rows, rows[0], pace=Pace(noise=Noise(median=0.0, tail=1.5)))
    assert found is rows[1]


def limited(*rows: Row) -> int:
    """What is recommended under a memory limit, the first row the defaults."""
    found = balanced_pick(rows, rows[0], pace=Pace(noise=Noise(median=0.0, tail=0.0)), limited=True)
    assert found is not None
    return found.number


def test_under_a_limit_the_fastest_that_fits_is_recommended() -> None:
    defaults, tight = with_tail(0, 3.85, 17.6, 38.9), with_tail(3, 3.39, 20.2, 50.0, "a:3")
    expandable, near = with_tail(1, 3.68, 17.5, 27.7, "a:1"), with_tail(9, 3.56, 17.8, 29.0, "a:9")
    retrying, quick = with_tail(10, 3.44, 17.6, 38.3, "a:10"), with_tail(12, 3.84, 10.0, 11.0, "a:12")
    assert limited(defaults, tight, expandable, retrying) == 1
    assert limited(defaults, tight, expandable, retrying, near) == 9
    assert limited(defaults, tight, expandable, retrying, near, quick) == 12
    assert limited(defaults, tight) == 0


def test_under_a_limit_settings_that_need_no_retries_are_preferred() -> None:
    expandable, less = with_tail(1, 3.68, 17.5, 27.7, "a:1"), with_tail(9, 3.56, 17.8, 29.0, "a:9")
    retried = replace(less, measurement=replace(less.measurement, step_alloc_retries=(0, 1, 1)))
    assert limited(with_tail(0, 3.85, 17.6, 38.9), expandable, less) == 9
    assert limited(with_tail(0, 3.85, 17.6, 38.9), expandable, retried) == 1


def test_under_a_limit_the_defaults_stay_where_nothing_is_faster_or_smaller() -> None:
    assert limited(with_tail(0, 3.8, 1, 1), with_tail(1, 3.79, 0.995, 1, "a:1")) == 0


def test_a_row_that_needs_hardly_more_takes_its_place_where_it_is_really_faster() -> None:
    assert picked(default(), other(1, 7.0, 1.0), other(2, 7.05, 0.9)) == 2
    assert picked(default(), other(1, 7.0, 1.0), other(2, 7.05, 0.99)) == 1
    assert picked(default(), other(1, 7.0, 1.0), other(2, 7.2, 0.5)) == 1


@pytest.mark.parametrize(
    ("memory", "seconds", "expected"), [(7.03, 1.01, 2), (7.05, 1.0, 1), (7.03, 1.03, 1), (6.99, 1.0, 2)]
)
def test_simpler_settings_that_do_as_well_stand_for_the_best(
    memory: float, seconds: float, expected: int
) -> None:
    longer = row(1, "max_split_size_mb:64,roundup_power2_divisions:[64:2,>:4]", measured=timed(7.0, 1.0))
    assert picked(default(), longer, other(2, memory, seconds)) == expected


def test_half_a_millisecond_of_driver_time_a_step_is_free_in_an_estimate() -> None:
    def recommended(obtained: Obtained, seconds: float, **conditions: object) -> int:
        rows = [
            row(0, "", Role.DEFAULT, measured=measurement("", reserved=10, seconds=0.0, obtained=obtained)),
            row(1, "a:1", measured=measurement("a:1", reserved=7, seconds=seconds, obtained=obtained)),
        ]
        found = summary(*rows, obtained=obtained, **conditions).recommended
        assert found is not None
        return found.number

    # A script's study knows both, that of a trace only the trace's steps.
    for conditions in ({"recorded_steps": 20, "measured_steps": 20}, {"recorded_steps": 20}):
        assert recommended(Obtained.ESTIMATED, 0.0099, **conditions) == 1
        assert recommended(Obtained.ESTIMATED, 0.0101, **conditions) == 0
        assert recommended(Obtained.REPLAYED, 0.0099, **conditions) == 0
    assert recommended(Obtained.ESTIMATED, 0.0004) == 1
    assert recommended(Obtained.ESTIMATED, 0.0006) == 0


def test_driver_time_that_vanishes_in_the_recorded_run_is_free() -> None:
    quiet = row(0, "", Role.DEFAULT, measured=measurement(reserved=10, seconds=0.0))
    calls = row(1, "expandable_segments:True", measured=measurement(reserved=6, seconds=0.01))
    assert picked(quiet, calls, recorded_seconds=5.0) == 1
    assert picked(quiet, calls, recorded_seconds=0.1) == 0
    assert picked(quiet, calls) == 0


def test_without_a_baseline_that_completed_the_fastest_row_is_the_yardstick() -> None:
    failed = default(outcome=Outcome.OUT_OF_MEMORY)
    assert picked(failed, other(1, 9.0, 1.0), other(2, 8.0, 1.01), other(3, 7.0, 2.0)) == 2


def test_nothing_completed_means_no_recommendation() -> None:
    assert balanced_pick([other(1, 1, 1, Outcome.CRASHED)], None) is None
    assert memory_pick([]) is None
    assert speed_pick([]) is None


def test_rows_that_failed_are_never_picked() -> None:
    rows = [default(), other(1, 1.0, 0.1, Outcome.OUT_OF_MEMORY), other(2, 1.0, 0.1, Outcome.REJECTED)]
    assert memory_pick(rows) is rows[0]
    assert speed_pick(rows) is rows[0]


def test_ties_go_to_the_faster_then_to_the_earlier_row() -> None:
    rows = [other(3, 5.0, 2.0), other(2, 5.0, 1.0), other(1, 5.0, 1.0)]
    found = memory_pick(rows)
    assert found is not None
    assert found.number == 1


@pytest.mark.parametrize("seed", range(30))
def test_the_recommendation_never_needs_more_memory_than_the_defaults(seed: int) -> None:
    chance = random.Random(seed)
    rows = [other(n, chance.uniform(5, 20), chance.uniform(0.5, 2)) for n in range(1, 20)]
    baseline = default()
    found = balanced_pick([baseline, *rows], baseline)
    assert found is not None
    values, reference = point(found), point(baseline)
    assert values is not None
    assert reference is not None
    assert found is baseline or values[0] <= reference[0] * (1 - WORTHWHILE_SAVING)


def test_a_row_without_a_step_time_has_no_point() -> None:
    assert point(row(1, measured=measurement(seconds=[], obtained=Obtained.MEASURED))) is None


def test_picks_by_name() -> None:
    found = summary(default(), other(1, 5.0, 3.0), other(2, 9.8, 0.5), obtained=Obtained.MEASURED)
    assert found.pick("memory").number == 1
    assert found.pick("speed").number == 2
    assert found.pick("trial:0").number == 0
    assert found.pick("balanced") is found.recommended


@pytest.mark.parametrize(
    "name", ["fastest", "trial:", "trial:x", "trial:-1", "trial:99", "trial:1", "", "trial:१"]
)
def test_a_pick_that_cannot_be_is_refused_with_its_name(name: str) -> None:
    found = summary(default(), other(1, 5.0, 3.0, Outcome.CRASHED), obtained=Obtained.MEASURED)
    with pytest.raises(UsageError):
        found.pick(name)
