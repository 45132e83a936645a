"""GPUs by name and by size."""

from __future__ import annotations

import pytest

from autotune.allocator.devices import device_total
from autotune.errors import UsageError


@pytest.mark.parametrize("text", ["H200", "h200", "NVIDIA H200", "nvidia-h200"])
def test_a_known_gpu_has_what_torch_reports_not_what_the_box_says(text: str) -> None:
    assert device_total(text) == 150_109_880_320


def test_any_other_gpu_is_given_by_its_memory() -> None:
    assert device_total("80GiB") == 80 << 30


def test_an_unknown_name_is_refused_with_the_known_ones_and_the_way_out() -> None:
    with pytest.raises(UsageError, match=r"'H2000' is neither .*NVIDIA H200.*total_memory"):
        device_total("H2000")
