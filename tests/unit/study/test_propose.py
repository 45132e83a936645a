"""Proposals: a function of history and seed, never known, never a dead end, with any sampler."""

from __future__ import annotations

import importlib.util

import pytest
from optuna.trial import FrozenTrial

from autotune.errors import UsageError
from autotune.measurement import Outcome
from autotune.report.stored import Role
from autotune.settings import AllocatorSettings
from autotune.study.book import finished_trial
from autotune.study.candidates import candidate
from autotune.study.dead_ends import dead_end
from autotune.study.propose import Known, propose
from autotune.study.samplers import SAMPLERS, check_sampler
from autotune.study.space import SearchSpace
from tests.fakes import FakeRunner, measurement, row

SPACE = SearchSpace(torch_version=(2, 14), limited=False)
TINY = SearchSpace(
    torch_version=(2, 10), limited=False, without=frozenset({"max_split_size_mb", "roundup_power2_divisions"})
)
HERE = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            name in ("gp", "qmc") and importlib.util.find_spec("scipy") is None, reason="needs scipy"
        ),
    )
    for name in SAMPLERS
]


def parse(text: str) -> AllocatorSettings:
    return AllocatorSettings.parse(text)


def history(count: int) -> list[FrozenTrial]:
    """Finished trials of a study that went through the beginning of the grid."""
    runner, found = FakeRunner(), []
    for number, settings in zip(range(count), SPACE.grid(), strict=False):
        measured = runner.measure(settings, number=number)
        found.append(finished_trial(SPACE, candidate(SPACE, Role.SAMPLED, settings), measured, penalty=()))
    return found


def proposed(known: Known, *, space: SearchSpace = SPACE, sampler: str = "tpe", **more: object) -> str | None:
    found = propose(space, history(14), known, num_objectives=3, seed=3, sampler=sampler, **more)  # type: ignore[arg-type]
    return None if found is None else str(found.settings)


@pytest.mark.parametrize("sampler", HERE)
def test_the_same_history_and_seed_give_the_same_proposal(sampler: str) -> None:
    first = proposed(Known(strings=set()), sampler=sampler)
    assert first is not None
    assert proposed(Known(strings=set()), sampler=sampler) == first


@pytest.mark.parametrize("sampler", [one for one in HERE if one.values != ("gp",)])  # gp takes minutes
def test_a_proposal_is_not_one_that_is_known(sampler: str) -> None:
    known: set[str] = set()
    for _ in range(4):
        found = proposed(Known(strings=known), sampler=sampler)
        assert found is not None and found not in known
        known.add(found)


def test_a_repeated_behaviour_is_passed_over_as_long_as_there_is_another() -> None:
    known = Known(strings=set(), repetition=lambda settings: settings.roundup_power2_divisions is None)
    assert "roundup" in (proposed(known) or "")


def test_when_only_repetitions_are_left_a_replay_takes_one_and_a_gpu_none() -> None:
    everything = Known(strings=set(), repetition=lambda settings: True)
    assert proposed(everything) is not None
    assert proposed(Known(strings=set(), repetition=lambda settings: True, may_repeat=False)) is None


def test_the_screening_is_fallen_back_on_before_anything_is_repeated() -> None:
    screened = [parse("large_segment_size_mb:70")]
    known = Known(strings=set(), repetition=lambda settings: settings != screened[0])
    assert proposed(known, screened=screened) == "large_segment_size_mb:70"


def test_dead_ends_are_not_proposed_even_when_nothing_else_is_left() -> None:
    known = Known(strings={""}, dead=lambda settings: bool(settings.expandable_segments))
    assert proposed(known, space=TINY) is None


def test_what_the_sampler_is_told_changes_what_it_proposes() -> None:
    good = measurement(reserved=1.0, allocated=1.0, seconds=0.0)
    told = [
        finished_trial(SPACE, candidate(SPACE, Role.SCREENED, settings), good, penalty=())
        for settings in (parse(f"roundup_power2_divisions:4,max_split_size_mb:{mb}") for mb in (64, 91, 128))
    ]
    assert proposed(Known(strings=set()), told=told) != proposed(Known(strings=set()))


def test_what_contains_everything_that_broke_is_a_dead_end() -> None:
    crashed = measurement(outcome=Outcome.CRASHED, reason="No IPC.")
    dead = dead_end([row(0), row(1, "expandable_segments:True", measured=crashed)])
    assert dead(parse("expandable_segments:True"))
    assert dead(parse("expandable_segments:True,roundup_power2_divisions:8"))
    assert not dead(parse("roundup_power2_divisions:8"))
    assert not dead(parse(""))


def test_options_that_ran_elsewhere_are_not_to_blame() -> None:
    timed_out = measurement(outcome=Outcome.TIMED_OUT)
    rows = [row(1, "max_split_size_mb:32", measured=timed_out)]
    rows.append(row(2, "max_split_size_mb:32,roundup_power2_divisions:8"))
    assert not dead_end(rows)(parse("max_split_size_mb:32,roundup_power2_divisions:4"))


def test_broken_defaults_and_memory_that_ran_out_make_no_dead_ends() -> None:
    rows = [
        row(0, "", measured=measurement(outcome=Outcome.CRASHED)),
        row(1, "expandable_segments:True", measured=measurement(outcome=Outcome.OUT_OF_MEMORY)),
    ]
    assert not dead_end(rows)(parse("expandable_segments:True,roundup_power2_divisions:2"))


def test_an_unknown_sampler_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="'cma' is no sampler; choose one of tpe, gp, nsga2, qmc, random"):
        check_sampler("cma")


def test_a_sampler_whose_packages_are_missing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"gp needs scipy and torch .*pip install scipy torch"):
        check_sampler("gp")
    check_sampler("tpe")
