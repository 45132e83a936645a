"""Progress of a run on stderr: a line a trial, and on a terminal a bar below them."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING

from autotune.report.objectives import point
from autotune.report.stored import Role, Row
from autotune.report.wording import DEFAULTS, outcome, plain
from autotune.units import format_bytes, format_change, format_seconds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID


SECONDS_BETWEEN_LINES = 10.0
"""Between two lines about a screening where no bar can be shown."""


def _bar(console: Console) -> Progress:
    """A bar on a terminal, nothing in a pipe; gone when it ends."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


class ScreenProgress:
    """Shows how far a screening has come: a bar on a terminal, a line in a pipe. A context manager.

    Nothing is shown unless a screening begins.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = _bar(console)
        self._task: TaskID | None = None
        self._most = 0
        self._said = 0.0

    def __enter__(self) -> ScreenProgress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def heard(self, done: int, most: int) -> None:
        """So many settings are replayed, of so many."""
        if self._task is None:
            self._console.print(
                f"autotune: Screening up to {most:,} settings by replay.", highlight=False, soft_wrap=True
            )
            self._bar.start()
            self._said = time.monotonic()
            self._task = self._bar.add_task("settings replayed", total=most)
        elif most > self._most:
            self._console.print(
                f"autotune: Hardly anything fits, so up to {most:,} are replayed.",
                highlight=False, soft_wrap=True,
            )  # fmt: skip
        self._most = most
        self._bar.update(self._task, completed=done, total=most)
        if not self._console.is_terminal and time.monotonic() - self._said > SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            self._console.print(
                f"autotune: {done:,} of up to {most:,} settings replayed.", highlight=False, soft_wrap=True
            )


class LiveProgress:
    """Shows trials as they finish. A context manager.

    Args:
        console: where to show them; a pipe gets plain lines.
        trials: how many there will be.
        done: how many of them earlier runs finished.
        baseline: the defaults' row, if it is known already.
    """

    def __init__(self, console: Console, *, trials: int, done: int = 0, baseline: Row | None = None) -> None:
        self._console = console
        self._trials = trials
        self._done = done
        self._baseline = baseline if baseline and point(baseline) else None
        self._bar = _bar(console)
        self._task = self._bar.add_task("", total=trials, completed=self._done)

    def __enter__(self) -> LiveProgress:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def started(self, settings: str) -> None:
        """A trial begins."""
        self._bar.update(self._task, description=plain(settings) or DEFAULTS)

    def finished(self, row: Row) -> None:
        """A trial has ended and is stored. A repetition of the defaults counts for none of the trials."""
        width = len(str(self._trials))
        if row.role is Role.DEFAULT and self._baseline is not None:
            count = "again".rjust(2 * width + 1)
        else:
            self._done += 1
            count = f"{self._done:>{width}}/{self._trials}"
        place = f"trial {row.number:>{width}}  {count}"
        if self._baseline is None and row.role is Role.DEFAULT and point(row):
            self._baseline = row
        self._console.print(self._line(place, row), markup=False, highlight=False, soft_wrap=True)
        self._bar.update(self._task, completed=self._done)

    def _line(self, place: str, row: Row) -> str:
        """`trial  6   7/60  replayed   6.05 GiB  −62.2 %  12.3 ms  expandable_segments:True`.

        The trial's number is the report's, which `export --pick trial:N` takes. A step's spread is left to
        the report: 80 columns hold no more.
        """
        settings = plain(row.settings) or DEFAULTS
        found, reference = point(row), self._baseline and point(self._baseline)
        if found is None:
            return f"{place}  {outcome(row)}  {settings}"
        change = format_change(found[0], reference[0]) if reference else ""
        return (
            f"{place}  {row.measurement.obtained}  {format_bytes(found[0]):>9}  {change:>7}  "
            f"{format_seconds(found[2]):>7}  {settings}"
        )
