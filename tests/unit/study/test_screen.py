"""Screening: what it looks at, how it sorts that by behaviour, and that it finds what is there to find."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autotune.allocator.result import OVERSHOOT
from autotune.settings import MOST_MEGABYTES, AllocatorSettings
from autotune.study.moves import LARGEST_PAGE_MB, Moves, arena_sizes
from autotune.study.predict import Prediction, Predictor
from autotune.study.screen import (
    ELITES,
    FEWEST_SETTINGS,
    MOST_SETTINGS,
    Screening,
    budget,
    elite,
    plane,
    screen,
)
from autotune.study.simplify import simplify
from autotune.study.space import SearchSpace
from autotune.study.split_sizes import candidate_sizes, split_sizes
from autotune.trace import load
from tests.traces import GIB, MIB, Program, varying

TRACE = varying()
DATA = Path(__file__).parents[2] / "data"
SPACE = SearchSpace(torch_version=(2, 14), limited=False, split_sizes_mb=(20, 40, 60))
GC_AND_SEGMENTS = ("garbage_collection_threshold", "large_segment_size_mb")


def parse(text: str) -> AllocatorSettings:
    return AllocatorSettings.parse(text)


def predictor(**conditions: Any) -> Predictor:
    return Predictor(TRACE, torch_version=(2, 14), warmup_steps=2, **conditions)


@pytest.fixture(scope="module")
def screening() -> Screening:
    return screen(predictor(), SPACE, most=600)


def test_the_budget_counts_operations_so_that_it_is_the_same_on_every_machine() -> None:
    assert budget(1_000) == MOST_SETTINGS
    assert FEWEST_SETTINGS < budget(1_000_000) < MOST_SETTINGS
    assert budget(10**9) == FEWEST_SETTINGS


def test_a_screening_replays_as_many_settings_as_it_may_and_each_behaviour_is_one_class(
    screening: Screening,
) -> None:
    assert screening.num_settings == 600
    keys = [found.behaviour for found in screening.classes]
    assert len(keys) == len(set(keys)) < 600


def test_the_simplest_settings_stand_for_their_behaviour(screening: Screening) -> None:
    defaults = predictor().predict(AllocatorSettings())
    assert [str(one.settings) for one in screening.classes if one.behaviour == defaults.behaviour] == [""]


def test_the_same_seed_gives_the_same_screening(screening: Screening) -> None:
    again = screen(predictor(), SPACE, most=600)
    assert [str(one.settings) for one in again.classes] == [str(one.settings) for one in screening.classes]


def test_it_finds_what_a_longer_random_search_finds(screening: Screening) -> None:
    chance, moves, replays = random.Random(5), Moves.on(TRACE, SPACE), predictor()
    drawn = replays.predict_many([moves.drawn(chance) for _ in range(3000)])
    best = min(found.memory for found in drawn if found.completes)
    assert min(found.memory for found in screening.completing) <= 1.01 * best


def test_anchors_are_replayed_whatever_the_space_says() -> None:
    anchor = parse("max_split_size_mb:33")
    found = screen(predictor(), SearchSpace(torch_version=(2, 14), limited=False, without=frozenset(
        {"max_split_size_mb"}
    )), anchors=[anchor], most=50)  # fmt: skip
    assert predictor().predict(anchor).behaviour in [one.behaviour for one in found.classes]


def test_pairs_of_options_with_few_values_are_looked_at_almost_all(monkeypatch: pytest.MonkeyPatch) -> None:
    limited = SearchSpace(torch_version=(2, 14), limited=True, split_sizes_mb=tuple(range(20, 84, 2)))
    replays, asked = predictor(memory_limit=GIB), set()
    predict_many = replays.predict_many

    def heard(settings: Any, progress: Any = None) -> Any:
        asked.update(str(one) for one in settings)
        return predict_many(settings, progress)

    monkeypatch.setattr(replays, "predict_many", heard)
    screen(replays, limited, most=3000)
    pairs = {str(one): one for one in Moves.on(TRACE, limited).pairs()}
    few = {text for text, one in pairs.items() if one.options == GC_AND_SEGMENTS}
    assert len(few & asked) > 0.9 * len(few) > 50
    assert len(pairs.keys() & asked) < 0.5 * len(pairs)


def test_under_a_memory_limit_the_neighbours_of_the_fastest_are_looked_at() -> None:
    found = screen(predictor(memory_limit=GIB), SPACE, most=200).classes
    fastest = min((one for one in found if one.completes), key=lambda one: (one.seconds, one.memory))
    assert fastest in elite(found, limited=True)
    quickest = sorted(one.seconds for one in found if one.completes)[: ELITES // 2]
    chosen = [one.seconds for one in elite(found, limited=True)]
    assert all(seconds in chosen for seconds in quickest)


def test_a_tight_limit_is_met_though_expandable_segments_seem_to_come_further() -> None:
    """Expandable segments run every operation here, in too much memory; what fits does without them."""
    trace = load(DATA / "gan.npz")
    tight = Predictor(trace, torch_version=(2, 14), memory_limit=int(1.04 * trace.peak_requested_bytes))
    space = SearchSpace(torch_version=(2, 14), limited=True, split_sizes_mb=(20, 28, 40, 64, 96))
    asked: list[int] = []
    found = screen(tight, space, most=600, heard=lambda done, most: asked.append(most))
    assert found.completing
    assert not any(one.settings.expandable_segments for one in found.completing)
    assert {asked[0], asked[-1]} == {600, 1200}
    assert found.num_settings > 600


def test_where_nothing_fits_settings_with_and_without_expandable_segments_are_pursued() -> None:
    tight = predictor(memory_limit=TRACE.peak_requested_bytes // 2)
    texts = [f"expandable_segments:True,large_segment_size_mb:{size}" for size in range(12, 52, 2)]
    texts += [f"max_split_size_mb:{size}" for size in range(20, 60, 2)]
    kinds = [
        bool(found.settings.expandable_segments)
        for found in elite(tight.predict_many([parse(text) for text in texts]))
    ]
    assert (kinds.count(True), kinds.count(False)) == (ELITES, ELITES)


def test_segments_up_to_the_live_peak_and_above_are_looked_at_but_not_as_pages_of_expandable_ones() -> None:
    trace = varying()
    moves, chance = Moves.on(trace, SPACE), random.Random(3)
    live_mb = trace.peak_requested_bytes / MIB
    assert moves.arenas_mb
    assert all(size > 512 and size % 2 == 0 for size in moves.arenas_mb)
    assert moves.arenas_mb[-1] == pytest.approx(1.2 * live_mb, abs=2)
    singles = {
        one.large_segment_size_mb for one in moves.singles() if one.options == ("large_segment_size_mb",)
    }
    assert set(moves.arenas_mb) <= singles
    large = replace(moves, arenas_mb=(20_000,))
    settings = parse("large_segment_size_mb:20000")
    met = [settings]
    for _ in range(300):
        settings = large.neighbour(settings, chance)
        met.append(settings)
    pages = [one.large_segment_size_mb or 0 for one in met if one.expandable_segments]
    assert pages
    assert max(pages) <= LARGEST_PAGE_MB < max(one.large_segment_size_mb or 0 for one in met)


def test_without_expandable_segments_it_comes_close_to_the_live_peak() -> None:
    trace = load(DATA / "gnn.npz")
    replays = Predictor(trace, torch_version=(2, 14))
    space = replace(SPACE, without=frozenset({"expandable_segments"}))
    best = min(found.memory for found in screen(replays, space, most=300).completing)
    assert best < 1.06 * trace.peak_requested_bytes
    assert replays.predict(AllocatorSettings()).memory > 1.4 * trace.peak_requested_bytes


def test_what_is_left_out_is_never_screened() -> None:
    space = SearchSpace(
        torch_version=(2, 14),
        limited=False,
        without=frozenset({"expandable_segments", "large_segment_size_mb"}),
    )
    for found in screen(predictor(), space, most=300).classes:
        assert not found.settings.expandable_segments
        assert found.settings.large_segment_size_mb is None


def test_under_a_limit_garbage_collection_is_screened_and_what_does_not_fit_does_not_complete() -> None:
    live = predictor().predict(AllocatorSettings()).measurement.peak_requested_bytes or 0
    limited = SearchSpace(torch_version=(2, 14), limited=True, split_sizes_mb=(20, 40, 60))
    found = screen(predictor(memory_limit=int(1.1 * live)), limited, most=400)
    assert any(one.settings.garbage_collection_threshold for one in found.classes)
    assert 0 < len(found.completing) < len(found.classes)


def test_pages_that_hold_far_more_than_the_limit_do_not_count_as_fitting() -> None:
    program = Program()
    program.alloc(100 * MIB)
    tight = Predictor(program.trace(), torch_version=(2, 14), memory_limit=110 * MIB, device_total=4 * GIB)
    huge = tight.predict(parse("expandable_segments:True,large_segment_size_mb:512"))
    assert huge.memory > 110 * MIB
    assert not huge.completes
    assert tight.predict(parse("expandable_segments:True")).completes


def test_a_smallest_fit_is_at_least_what_is_held_in_it() -> None:
    replays = predictor()
    settings = [parse(""), parse("expandable_segments:True,large_segment_size_mb:512")]
    for one, fit in zip(settings, replays.smallest_fits(settings), strict=True):
        assert fit is not None
        held = predictor(memory_limit=fit).predict(one)
        assert held.completes
        assert held.memory <= fit + OVERSHOOT


def test_the_plane_holds_no_point_that_another_beats(screening: Screening) -> None:
    members = plane(screening.classes)
    points = [(found.memory, found.seconds) for found in members]
    assert points == sorted(points)
    for found in screening.completing:
        assert any(m <= found.memory and s <= found.seconds for m, s in points)


@pytest.mark.parametrize("version", [(2, 4), (2, 8), (2, 11), (2, 15)])
@pytest.mark.parametrize("limited", [False, True])
def test_every_step_of_a_walk_is_legal_canonical_and_allowed(version: tuple[int, int], limited: bool) -> None:
    space = SearchSpace(torch_version=version, limited=limited, split_sizes_mb=(20, 64, 200))
    moves, chance = Moves.on(TRACE, space), random.Random(1)
    settings = AllocatorSettings()
    for _ in range(150):
        settings = moves.neighbour(settings, chance)
        settings.validate(version)
        assert space.canonical(settings) == settings
        assert not (settings.expandable_segments and settings.max_split_size_mb)


def test_divisions_change_only_where_the_trace_has_requests() -> None:
    program = Program()
    program.alloc(40 * MIB)
    moves, chance = Moves.on(program.trace(), SPACE), random.Random(2)
    assert moves.intervals == (5,)
    for _ in range(50):
        table = moves.neighbour(AllocatorSettings(), chance).roundup_divisions((2, 14))
        assert len(set(table)) == 1


def test_split_sizes_each_behave_unlike_the_others_and_unlike_none() -> None:
    replays = predictor()
    sizes = split_sizes(replays)
    assert sizes and list(sizes) == sorted(sizes)
    settings = [AllocatorSettings(), *(AllocatorSettings(max_split_size_mb=size) for size in sizes)]
    keys = [found.behaviour for found in replays.predict_many(settings)]
    assert len(set(keys)) == len(keys)


def test_no_split_size_is_tried_above_the_largest_segment() -> None:
    program = Program()
    program.cache(30 * MIB, 51 * MIB)
    assert candidate_sizes(program.trace())[-1] == 53


def test_without_a_split_size_that_matters_the_option_is_not_offered() -> None:
    assert not SearchSpace(torch_version=(2, 14), limited=False, split_sizes_mb=()).offers(
        "max_split_size_mb"
    )


def simplified(text: str) -> Prediction:
    replays = predictor()
    return simplify(replays, SPACE, replays.predict(parse(text)))


def test_options_that_gain_nothing_are_left_out() -> None:
    # Neither option acts on this trace besides what the first does.
    found = simplified("expandable_segments:True,roundup_power2_divisions:[4096:8,>:8]")
    assert str(found.settings) == "expandable_segments:True"


def test_what_gains_something_stays() -> None:
    plain, expandable = predictor().predict(parse("")), simplified("expandable_segments:True")
    assert expandable.memory < 0.99 * plain.memory
    assert str(expandable.settings) == "expandable_segments:True"


def test_no_arena_is_larger_than_the_option_takes() -> None:
    program = Program()
    program.cache(*[1 << 49] * 9)
    assert max(arena_sizes(program.trace()), default=0) <= MOST_MEGABYTES
