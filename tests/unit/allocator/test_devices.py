"""GPUs by name and by size."""

from __future__ import annotations

import pytest

from autotune.allocator.devices import CARDS, card, device_total
from autotune.errors import UsageError


@pytest.mark.parametrize("text", ["H200", "h200", "NVIDIA H200", "nvidia-h200"])
def test_a_known_gpu_has_what_torch_reports_not_what_the_box_says(text: str) -> None:
    assert device_total(text) == 150_109_880_320


def test_any_other_gpu_is_given_by_its_memory() -> None:
    assert device_total("80GiB") == 80 << 30


def test_an_unknown_name_is_refused_with_the_known_ones_and_the_way_out() -> None:
    with pytest.raises(UsageError, match=r"'H2000' is neither .*NVIDIA H200.*total_memory"):
        device_total("H2000")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("A100-40GB", "NVIDIA A100-SXM4-40GB"),
        ("A100", "NVIDIA A100-SXM4-80GB"),
        ("h100", "NVIDIA H100 80GB HBM3"),
        ("RTX 4090", "NVIDIA GeForce RTX 4090"),
        ("4090", "NVIDIA GeForce RTX 4090"),
        ("t4", "Tesla T4"),
    ],
)
def test_cards_go_by_what_people_call_them(text: str, name: str) -> None:
    assert card(text).name == name


def test_a_size_is_taken_for_a_card_like_an_h200() -> None:
    found = card("24GiB")
    assert (found.total_bytes, found.capability, found.num_processors) == (24 << 30, (9, 0), 132)


def test_every_card_has_less_memory_than_its_box_says_and_is_found_by_its_name() -> None:
    for one in CARDS:
        assert card(one.name) == one and one.total_bytes > 14 << 30
