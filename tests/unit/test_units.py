"""Sizes, durations and changes as people write and read them."""

from __future__ import annotations

import pytest

from autotune.errors import UsageError
from autotune.units import format_bytes, format_change, format_percent, format_seconds, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("24GiB", 24 << 30),
        ("24G", 24 << 30),
        ("24 gib", 24 << 30),
        ("24GB", 24_000_000_000),
        ("1.5MiB", 3 << 19),
        ("150109880320", 150_109_880_320),
    ],
)
def test_binary_and_decimal_sizes_are_told_apart(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GiB",
        "-1GiB",
        "0",
        "24 apples",
        "1e9",
        "nan",
        "24GiB please",
        "9" * 400,
        "2PiB",
        "1025TiB",
        "٣GiB",
    ],
)
def test_what_is_no_size_above_zero_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_size(text)


def test_quantities_are_written_with_their_units() -> None:
    assert format_bytes(512) == "512 B"
    assert format_bytes(17_171_480_576) == "16.0 GiB"
    assert format_bytes(3 << 19) == "1.50 MiB"
    assert format_percent(0.125) == "12.5 %"
    assert [format_seconds(value) for value in (0, 36e-6, 0.0123, 4.21, 200)] == [
        "0 s",
        "36 µs",
        "12.3 ms",
        "4.21 s",
        "3 min 20 s",
    ]


def test_changes_are_signed_and_have_no_meaning_without_a_reference() -> None:
    assert format_change(62, 100) == "−38.0 %"
    assert format_change(110, 100) == "+10.0 %"
    assert format_change(100, 100) == "0.0 %"
    assert format_change(5, 0) == "—"
