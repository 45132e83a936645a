"""Settings are broken over lines only where half of them is not taken for the whole."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from rich.table import Table

from autotune.measurement import Environment, Obtained
from autotune.report.breaks import SettingsCell, breakable, lines, pieces
from autotune.report.page import render_page
from autotune.report.stored import Role
from autotune.report.swept import Swept, print_swept
from autotune.report.terminal import print_report
from autotune.settings import AllocatorSettings
from tests.fakes import measurement, row, summary
from tests.terminal import printed

LONG = (
    "max_split_size_mb:1142,max_non_split_rounding_mb:2048,garbage_collection_threshold:0.15,"
    "roundup_power2_divisions:[4:1,8:4,16:2,32:1,64:8,>:8],large_segment_size_mb:9618"
)
WHOLE = re.compile(r"(?:>|[0-9]+):[0-9]+|[0-9.]+")
"""Pairs in brackets, and numbers."""


@pytest.mark.parametrize("width", range(14, 100))
def test_no_number_and_no_pair_is_ever_broken(width: int) -> None:
    broken = lines(LONG, width)
    assert "".join(broken) == LONG
    assert max(map(len, broken)) <= width
    assert [one for line in broken for one in WHOLE.findall(line)] == WHOLE.findall(LONG)


def test_a_line_breaks_after_a_comma_else_after_a_colon_or_an_underscore() -> None:
    assert lines("large_segment_size_mb:9618", 25) == ["large_segment_size_mb:", "9618"]
    assert lines("garbage_collection_threshold:0.15", 24) == ["garbage_collection_", "threshold:0.15"]
    assert lines("roundup_power2_divisions:[64:2,>:4]", 32) == ["roundup_power2_divisions:[64:2,", ">:4]"]


def test_every_option_begins_a_line() -> None:
    assert [line.split(":")[0] for line in lines(LONG, 80)] == [
        one.split(":")[0] for one in re.split(r",(?![^\[]*\])", LONG)
    ]


def test_pieces_are_the_text_whatever_it_is() -> None:
    for text in (LONG, "", "[", "a,]b[,", "(PyTorch's defaults)", ",,"):
        assert "".join(pieces(text)) == text
        assert "".join(lines(text, 200)) == text


def test_a_word_of_a_sentence_longer_than_the_line_is_broken_in_the_same_places() -> None:
    text = breakable(f"Trial 8 out of memory: {LONG}. It held 1.13 GiB.", 60)
    assert text.replace("\n", "") == f"Trial 8 out of memory: {LONG}. It held 1.13 GiB."
    assert WHOLE.findall(text.replace("\n", " ")) == WHOLE.findall(text.replace("\n", ""))


def test_a_column_of_settings_takes_the_room_that_there_is() -> None:
    table = Table("settings", "n")
    table.add_row(SettingsCell(LONG), "1")
    assert "roundup_power2_divisions:[4:1,8:4,16:2,32:1,64:8,>:8]," in printed(
        lambda console: console.print(table), 120
    )


def test_the_study_table_shows_every_value_whole_at_eighty_columns() -> None:
    found = summary(
        row(0, "", Role.DEFAULT),
        row(1, LONG, Role.GIVEN, measured=measurement(LONG, reserved=20)),
        row(2, "large_segment_size_mb:9618", Role.GIVEN, measured=measurement(reserved=20)),
        row(3, "garbage_collection_threshold:0.15", Role.GIVEN, measured=measurement(reserved=20)),
    )
    text = printed(lambda console: print_report(found, console))
    assert max(len(line) for line in text.splitlines()) <= 80
    for part in LONG.split(",")[:3]:
        assert part in text
    assert re.search(r"large_segment_size_mb:9618\s", text)
    assert "<wbr>".join(["large_", "segment_", "size_", "mb:", "9618"]) in render_page(found)


def test_the_sweep_of_a_list_breaks_it_between_its_pairs() -> None:
    label = "[" + ",".join(f"{1 << n}:{1 << n % 4}" for n in range(16)) + "]"
    settings = f"roundup_power2_divisions:{label}"
    AllocatorSettings.parse(settings)
    swept = Swept(
        option="roundup_power2_divisions",
        subject="trace.npz",
        obtained=Obtained.REPLAYED,
        environment=Environment(),
        labels=("none", label),
        rows=(
            row(0, "", Role.DEFAULT),
            replace(row(1), settings=settings),
        ),
    )
    text = printed(lambda console: print_swept(swept, console))
    assert set(re.findall(r"\d+:\d+", label)) <= set(re.findall(r"(?<![\d.])\d+:\d+(?!\d)", text))
