"""AllocatorSettings: what PyTorch accepts, refuses, and treats as the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import SettingsError
from autotune.settings import AllocatorSettings, parse_torch_version

parse = AllocatorSettings.parse

megabytes = st.one_of(st.none(), st.integers(20, 40000))
divisions = st.sampled_from([1, 2, 4, 8, 16, 32])


@st.composite
def roundups(draw: st.DrawFn) -> object:
    if draw(st.booleans()):
        return draw(st.one_of(st.none(), divisions))
    keys = sorted(draw(st.sets(st.sampled_from([1 << n for n in range(16)]), min_size=1)))
    pairs: list[tuple[int | None, int]] = [(key, draw(divisions)) for key in keys]
    return (*pairs, (None, draw(divisions))) if draw(st.booleans()) else tuple(pairs)


settings_strategy = st.builds(
    AllocatorSettings,
    expandable_segments=st.one_of(st.none(), st.booleans()),
    max_split_size_mb=megabytes,
    max_non_split_rounding_mb=megabytes,
    garbage_collection_threshold=st.one_of(st.none(), st.sampled_from([0.5, 0.75, 0.99])),
    roundup_power2_divisions=roundups(),
    large_segment_size_mb=megabytes,
)


@given(settings_strategy)
def test_printing_and_parsing_gives_the_same_settings(settings: AllocatorSettings) -> None:
    assert parse(str(settings)) == settings


@given(settings_strategy, st.sampled_from([(2, 6), (2, 9), (2, 11), (2, 15)]))
def test_canonical_settings_round_requests_the_same_on_every_release(
    settings: AllocatorSettings, torch_version: tuple[int, int]
) -> None:
    canonical = settings.canonical(torch_version=torch_version)
    expected = settings.roundup_divisions(torch_version)
    assert canonical.canonical(torch_version=torch_version) == canonical
    for release in ((2, 6), (2, 15)):
        assert canonical.roundup_divisions(release) == expected


def test_blanks_and_a_trailing_comma_are_ignored_as_pytorch_does() -> None:
    assert parse(" max_split_size_mb : 128 , ") == AllocatorSettings(max_split_size_mb=128)


@pytest.mark.parametrize(
    "text",
    [
        "max_split_size_mb",
        "max_split_size_mb=128",
        "max_split_size_mb:128;expandable_segments:True",
        "max_split_size_mb:128,,expandable_segments:True",
        "max_split_size_mb:-1",
        "max_split_size_mb:20.5",
        "max_split_size_mb:",
        "max_split_size_mb:128,max_split_size_mb:64",
        "max_splitt_size_mb:128",
        "expandable_segments:true",
        "garbage_collection_threshold:0",
        "garbage_collection_threshold:1",
        "garbage_collection_threshold:nan",
        "roundup_power2_divisions:0",
        "roundup_power2_divisions:3",
        "roundup_power2_divisions:[256:1,512:2",
        "roundup_power2_divisions:[300:2]",
        "roundup_power2_divisions:[>:8,256:1]",
        "large_segment_size_mb:10",
        "backend:cudaMallocAsync",
        "release_lock_on_cudamalloc:yes",
    ],
)
def test_what_pytorch_refuses_or_misreads_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "torch_version", "legal"),
    [
        ("max_split_size_mb:20", (2, 10), True),
        ("max_split_size_mb:20", (2, 9), False),
        ("max_split_size_mb:21", (2, 9), True),
        ("max_split_size_mb:32,large_segment_size_mb:64", (2, 11), False),
        ("max_split_size_mb:64,large_segment_size_mb:64", (2, 11), True),
        ("large_segment_size_mb:64", (2, 10), False),
        ("expandable_segments:True,large_segment_size_mb:31", (2, 11), False),
        ("expandable_segments:True,large_segment_size_mb:32", (2, 11), True),
        ("large_segment_size_mb:31", (2, 11), True),
        ("max_non_split_rounding_mb:32", (2, 5), False),
        ("per_process_memory_fraction:0.5", (2, 9), False),
        ("pinned_free_catch_all:True", (2, 11), False),
    ],
)
def test_options_and_limits_follow_the_torch_release(
    text: str, torch_version: tuple[int, int], legal: bool
) -> None:
    settings = parse(text)
    if legal:
        settings.validate(torch_version)
    else:
        with pytest.raises(SettingsError):
            settings.validate(torch_version)


@pytest.mark.parametrize(
    ("text", "limited", "canonical"),
    [
        ("expandable_segments:False,large_segment_size_mb:20", True, ""),
        ("garbage_collection_threshold:0.8", False, ""),
        ("garbage_collection_threshold:0.8", True, "garbage_collection_threshold:0.8"),
        ("expandable_segments:True,garbage_collection_threshold:0.8", True, "expandable_segments:True"),
        ("max_non_split_rounding_mb:64", True, ""),
        ("max_split_size_mb:64,max_non_split_rounding_mb:20", True, "max_split_size_mb:64"),
        ("roundup_power2_divisions:1", True, ""),
        ("roundup_power2_divisions:[1:8,>:8]", True, "roundup_power2_divisions:8"),
        ("release_lock_on_cudamalloc:False,backend:native", True, ""),
    ],
)
def test_what_has_no_effect_is_dropped_from_the_canonical_form(
    text: str, limited: bool, canonical: str
) -> None:
    assert str(parse(text).canonical(limited=limited)) == canonical


def test_a_greater_than_key_overwrites_the_last_one_before_torch_2_10() -> None:
    settings = parse("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]")
    assert settings.roundup_divisions((2, 9))[8:12] == (0, 2, 8, 8)
    assert settings.roundup_divisions((2, 10))[8:12] == (0, 2, 4, 8)


def test_the_first_listed_size_also_serves_all_smaller_ones_and_gaps_stay_off() -> None:
    table = parse("roundup_power2_divisions:[4:8,16:2]").roundup_divisions((2, 11))
    assert table == (8, 8, 8, 0, 2, *(0,) * 11)


def test_torch_versions_are_read_with_and_without_a_build_tag() -> None:
    assert parse_torch_version("2.11.0+cu130") == (2, 11)
    assert parse_torch_version("2.4") == (2, 4)
    for text in ("2.3.1", "two", ""):
        with pytest.raises(SettingsError):
            parse_torch_version(text)
