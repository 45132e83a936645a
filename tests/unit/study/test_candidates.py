"""The first trials, and what the environment says."""

from __future__ import annotations

import pytest

from autotune.errors import SettingsError
from autotune.report.stored import Role
from autotune.settings import AllocatorSettings
from autotune.study.candidates import environment_settings, first_candidates
from autotune.study.space import SearchSpace

SPACE = SearchSpace(torch_version=(2, 14), limited=False)


def parse(text: str) -> AllocatorSettings:
    return AllocatorSettings.parse(text)


def test_the_defaults_come_first_then_expandable_then_the_environment() -> None:
    found = first_candidates(
        SPACE, environment=parse("max_split_size_mb:77"), given=[parse("max_split_size_mb:99")]
    )
    assert [(one.role, str(one.settings)) for one in found[:4]] == [
        (Role.DEFAULT, ""),
        (Role.EXPANDABLE, "expandable_segments:True"),
        (Role.ENVIRONMENT, "max_split_size_mb:77"),
        (Role.GIVEN, "max_split_size_mb:99"),
    ]


def test_no_behaviour_is_tried_twice() -> None:
    found = first_candidates(
        SPACE, environment=parse("expandable_segments:False"), given=[parse("max_split_size_mb:128")]
    )
    texts = [str(one.settings) for one in found]
    assert len(texts) == len(set(texts))
    assert Role.ENVIRONMENT not in [one.role for one in found]


def test_folklore_that_cannot_act_without_a_limit_is_tried_only_with_one() -> None:
    limited = SearchSpace(torch_version=(2, 14), limited=True)
    assert not any("garbage" in str(one.settings) for one in first_candidates(SPACE))
    assert any("garbage" in str(one.settings) for one in first_candidates(limited))


def test_what_is_left_out_is_left_out_of_the_first_trials_too() -> None:
    space = SearchSpace(torch_version=(2, 14), limited=False, without=frozenset({"expandable_segments"}))
    assert not any(one.settings.expandable_segments for one in first_candidates(space))


def test_the_cuda_variable_wins_even_when_it_is_empty() -> None:
    environ = {"PYTORCH_CUDA_ALLOC_CONF": "", "PYTORCH_ALLOC_CONF": "max_split_size_mb:64"}
    assert environment_settings((2, 10), environ) == AllocatorSettings()


def test_the_general_variable_counts_from_torch_2_10_on() -> None:
    environ = {"PYTORCH_ALLOC_CONF": "max_split_size_mb:64"}
    assert environment_settings((2, 9), environ) is None
    assert environment_settings((2, 10), environ) == parse("max_split_size_mb:64")


def test_an_illegal_environment_is_named_with_its_variable() -> None:
    with pytest.raises(SettingsError, match=r"PYTORCH_CUDA_ALLOC_CONF is set .*max_split_size"):
        environment_settings(None, {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size=64"})


def test_without_expandable_segments_large_segments_are_tried_outright() -> None:
    space = SearchSpace(torch_version=(2, 14), limited=False, without=frozenset({"expandable_segments"}))
    assert "large_segment_size_mb:128" in [str(one.settings) for one in first_candidates(space)]
    older = SearchSpace(torch_version=(2, 10), limited=False, without=frozenset({"expandable_segments"}))
    assert not any(one.settings.large_segment_size_mb for one in first_candidates(older))
