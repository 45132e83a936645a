"""The report as text: fits 80 columns, and reads the same in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from autotune.errors import as_sentence
from autotune.report import matters_text
from autotune.report.breaks import SettingsCell, breakable
from autotune.report.confirmed import confirmations, sentence
from autotune.report.folklore import folklore
from autotune.report.matters import Matters
from autotune.report.objectives import point
from autotune.report.shortage import Shortage
from autotune.report.stored import Role, Row
from autotune.report.summary import Summary
from autotune.report.wording import (
    assignment,
    cells,
    machine,
    obtained_sentence,
    outcome,
    plain,
    reason,
    subject,
    third_objective,
    verdict,
    warnings,
)
from autotune.units import format_seconds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

SHOWN_FAILURES = 8
SHOWN_FRONT = 12


def print_report(summary: Summary, console: Console, matters: Matters | Shortage | None = None) -> None:
    """Print what was tuned, the table, what failed, what matters, and what to use."""

    def say(text: str, style: str = "") -> None:
        console.print(breakable(plain(text), console.width), style=style, markup=False, highlight=False)

    say(f"Study {plain(summary.study)}: {len(summary.rows)} trials of {subject(summary)}", "bold")
    say(f"{machine(summary)}. {obtained_sentence(summary)}")
    console.print(_table(summary))
    for line in _failures(summary):
        say(line)
    if lines := folklore(summary):
        say("What is often recommended:")
    for line in lines:
        say(f"  {line}")
    if summary.startup_seconds is not None:
        say(f"Starting a worker took {format_seconds(summary.startup_seconds)} a trial (median).")
    for found in confirmations(summary.rows):
        say(f"{found.title}: {plain(found.settings)}. {sentence(found)}", "bold")
    if isinstance(matters, Matters):
        say("What matters here, by replay:")
        for line in matters_text.sentences(matters):
            say(f"  {line}")
    for warning in warnings(summary):
        say(f"Note: {warning}", "yellow")
    say(verdict(summary), "bold green" if summary.recommended else "bold red")
    if isinstance(matters, Shortage):
        for line in matters_text.shortage_sentences(matters):
            say(line)
    if text := reason(summary):
        say(text)
    if line := assignment(summary):
        # One line however long: it is there to be copied.
        console.print(f"  {line}", style="bold", markup=False, highlight=False, soft_wrap=True)


def _table(summary: Summary) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    # Narrow columns leave the room to settings.
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    table.add_column("trial", no_wrap=True)
    table.add_column("settings")
    for name in ("peak\nreserved", "fragm.", third_objective(summary).replace(" ", "\n")):
        table.add_column(name, justify="right")
    for labels, row in notable(summary):
        shown = cells(summary, row)
        bold = "bold" if summary.recommended and row.number == summary.recommended.number else ""
        columns = (
            "\n".join([str(row.number), *labels]),
            _stacked(shown.memory.replace("out of ", "out of\n"), shown.memory_change),
            shown.fragmentation,
            "\n".join(
                filter(None, (_stacked(shown.seconds, shown.seconds_change), shown.tail, shown.retries))
            ),
        )
        first, *numbers = (Text(column, style=bold) for column in columns)
        table.add_row(first, SettingsCell(plain(shown.settings), style=bold), *numbers)
    return table


def notable(summary: Summary) -> list[tuple[list[str], Row]]:
    """The rows worth showing, with why: fixed roles first, then the recommendation, then the front.

    Front rows with equal numbers are folded into the first of them.
    """
    labels: dict[int, list[str]] = {}
    rows: dict[int, Row] = {}

    def add(row: Row | None, label: str) -> None:
        if row is not None:
            rows[row.number] = row
            labels.setdefault(row.number, []).append(label)

    add(summary.baseline, "default")
    for role in (Role.EXPANDABLE, Role.ENVIRONMENT, Role.GIVEN):
        for row in _with_role(summary, role):
            add(row, str(role))
    add(summary.recommended, "recommended")
    for row in _distinct(summary.front)[:SHOWN_FRONT]:
        add(row, "front")
    return [(labels[number], row) for number, row in rows.items()]


def _with_role(summary: Summary, role: Role) -> Iterable[Row]:
    if role is Role.GIVEN:
        return [row for row in summary.rows if row.role is role]
    found = summary.first(role)
    return [found] if found else []


def _distinct(rows: Sequence[Row]) -> list[Row]:
    """The first row of each set of equal numbers, the smallest memory first."""
    first: dict[tuple[float, float, float], Row] = {}
    for row in rows:
        if (found := point(row)) is not None:
            first.setdefault(found, row)
    return [first[found] for found in sorted(first)]


def _failures(summary: Summary) -> list[str]:
    failed = summary.failed
    lines = [
        f"Trial {row.number} {outcome(row)}: {plain(row.settings) or 'the defaults'}."
        + (f" {plain(as_sentence(row.measurement.reason))}" if row.measurement.reason else "")
        for row in failed[:SHOWN_FAILURES]
    ]
    if len(failed) > SHOWN_FAILURES:
        lines.append(f"… and {len(failed) - SHOWN_FAILURES} more trials did not complete.")
    return lines


def _stacked(value: str, change: str) -> str:
    return f"{value.replace(' ± ', chr(10) + '± ')}\n{change}" if change else value.replace(" ± ", "\n± ")
