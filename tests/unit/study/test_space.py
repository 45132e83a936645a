"""What may be proposed, and that settings and parameters are two spellings of one thing."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
from optuna.trial import FixedTrial, create_trial

from autotune.errors import UsageError
from autotune.settings import AllocatorSettings, TorchVersion
from autotune.study.moves import Moves
from autotune.study.space import SearchSpace

VERSIONS = [(2, 4), (2, 6), (2, 8), (2, 10), (2, 11), (2, 15)]


def space(
    torch_version: TorchVersion = (2, 14),
    *,
    limited: bool = False,
    without: tuple[str, ...] = (),
    **more: Any,
) -> SearchSpace:
    return SearchSpace(torch_version=torch_version, limited=limited, without=frozenset(without), **more)


class RandomTrial:
    """Chooses every parameter by chance."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        return self._chance.choice(choices)

    def suggest_float(self, name: str, low: float, high: float, *, step: float) -> float:
        return low + step * self._chance.randint(0, round((high - low) / step))

    def suggest_int(self, name: str, low: int, high: int, *, log: bool) -> int:
        return round(math.exp(self._chance.uniform(math.log(low), math.log(high))))


def sample(one: SearchSpace, count: int = 300) -> list[AllocatorSettings]:
    """Settings from all over the space."""
    return [one.suggest(RandomTrial(seed)) for seed in range(count)]  # type: ignore[arg-type]


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_everything_in_the_space_is_legal_for_its_torch_and_survives_the_round_trip(
    version: TorchVersion, limited: bool
) -> None:
    one = space(version, limited=limited)
    for settings in sample(one):
        settings.validate(version)
        parameters = one.parameters(settings)
        assert parameters is not None, settings
        assert one.suggest(FixedTrial(parameters)) == settings
        assert AllocatorSettings.parse(str(settings)) == settings


def test_the_space_contains_the_defaults_and_plain_expandable_segments() -> None:
    for version in VERSIONS:
        for text in ("", "expandable_segments:True", "max_split_size_mb:128"):
            assert space(version).parameters(AllocatorSettings.parse(text)) is not None


def test_split_size_and_expandable_segments_are_never_proposed_together() -> None:
    for settings in sample(space(limited=True)):
        if settings.expandable_segments:
            assert settings.max_split_size_mb is None
            assert settings.garbage_collection_threshold is None


def test_garbage_collection_is_proposed_only_under_a_memory_limit() -> None:
    assert not any(one.garbage_collection_threshold for one in sample(space()))
    assert any(one.garbage_collection_threshold for one in sample(space(limited=True)))


def test_options_that_this_torch_lacks_are_not_proposed() -> None:
    assert not any(one.large_segment_size_mb for one in sample(space((2, 10))))
    assert any(one.large_segment_size_mb for one in sample(space((2, 11))))
    assert not any(one.max_non_split_rounding_mb for one in sample(space((2, 4))))
    assert any(one.max_non_split_rounding_mb for one in sample(space((2, 6))))


@pytest.mark.parametrize("option", ["expandable_segments", "max_split_size_mb", "roundup_power2_divisions"])
def test_an_option_left_out_is_never_proposed(option: str) -> None:
    assert not any(getattr(one, option) for one in sample(space(without=(option,))))


def test_leaving_out_an_unknown_option_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"--without split_size: .*max_split_size_mb"):
        space(without=("split_size",))


def test_split_sizes_come_from_the_list_that_was_given() -> None:
    found = {one.max_split_size_mb for one in space((2, 8), split_sizes_mb=(64, 300)).grid()}
    assert found == {None, 64, 300}


def test_a_split_size_is_never_below_the_large_segment_size() -> None:
    parameters = {
        "expandable_segments": False, "roundup_power2_divisions": "off", "large_segment_size_mb": 256,
        "limit_split_size": True, "max_split_size_mb": 32, "max_non_split_rounding_mb": 64,
    }  # fmt: skip
    settings = space().settings(parameters)
    assert settings.max_split_size_mb == 256
    settings.validate((2, 14))


def test_the_grid_repeats_nothing() -> None:
    texts = [str(one) for one in space((2, 8)).grid()]
    assert len(texts) == len(set(texts)) > 1000


def test_settings_outside_the_space_have_no_parameters() -> None:
    for text in (
        "roundup_power2_divisions:[64:2,>:16]",
        "pinned_num_register_threads:8",
    ):
        assert space().parameters(AllocatorSettings.parse(text)) is None


@pytest.mark.parametrize("torch_version", [(2, 4), (2, 6), (2, 11), (2, 14)])
@pytest.mark.parametrize("limited", [False, True])
def test_optuna_stores_whatever_settings_the_search_comes_by(
    torch_version: TorchVersion, *, limited: bool
) -> None:
    one = SearchSpace(torch_version=torch_version, limited=limited)
    moves, chance = Moves(space=one, intervals=(0, 3, 7)), random.Random(1)
    given = [
        "garbage_collection_threshold:0.1", "garbage_collection_threshold:0.23",
        "garbage_collection_threshold:0.97", "max_split_size_mb:100000", "roundup_power2_divisions:64",
    ]  # fmt: skip
    met = [AllocatorSettings.parse(text) for text in given]
    for _ in range(60):
        settings = moves.drawn(chance)
        for _ in range(8):
            settings = moves.neighbour(settings, chance)
            met.append(settings)
    placed = 0
    for settings in met:
        parameters = one.parameters(settings)
        if parameters is not None:
            placed += 1
            create_trial(values=[0.0], params=parameters, distributions=one.distributions(parameters))
            assert one.settings(parameters) == one.canonical(settings) or settings.max_split_size_mb
    assert 0 < placed < len(met)
