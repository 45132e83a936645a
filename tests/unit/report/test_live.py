"""Progress names trials as the report does, and fits a terminal."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from autotune.measurement import Obtained
from autotune.report.live import LiveProgress
from autotune.report.stored import Role, Row
from tests.fakes import measurement, row


def shown(*rows: Row, trials: int = 60, done: int = 0) -> list[str]:
    stream = io.StringIO()
    with LiveProgress(Console(file=stream), trials=trials, done=done) as live:
        for one in rows:
            live.finished(one)
    return stream.getvalue().splitlines()


def timed(settings: str = "", reserved: float = 139.8) -> Row:
    found = measurement(settings, reserved=reserved, seconds=[0.123, 0.456], obtained=Obtained.MEASURED)
    return row(0, settings, Role.DEFAULT if not settings else Role.SAMPLED, measured=found)


def test_a_line_names_the_trial_as_the_report_does_and_how_many_there_are() -> None:
    rows = [timed(), replace(timed("expandable_segments:True", 52.8), number=1)]
    assert shown(*rows, trials=20) == [
        "trial  0   1/20  measured  139.8 GiB    0.0 %   290 ms  (PyTorch's defaults)",
        "trial  1   2/20  measured   52.8 GiB  −62.2 %   290 ms  expandable_segments:True",
    ]


def test_a_repetition_of_the_defaults_has_a_number_and_counts_for_none() -> None:
    rows = [replace(timed(), number=number) for number in (0, 1)]
    last = replace(timed("expandable_segments:True"), number=2)
    assert [line[:17].split() for line in shown(*rows, last)] == [
        ["trial", "0", "1/60"],
        ["trial", "1", "again"],
        ["trial", "2", "2/60"],
    ]


def test_a_plain_setting_fits_80_columns_however_it_was_obtained() -> None:
    for obtained in Obtained:
        rows = [timed(), replace(timed("expandable_segments:True", 52.8), number=59)]
        rows = [replace(one, measurement=replace(one.measurement, obtained=obtained)) for one in rows]
        assert max(map(len, shown(*rows, done=58))) <= 80
