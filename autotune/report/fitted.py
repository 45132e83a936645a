"""The largest value that runs, for each of several settings: as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from autotune.measurement import Environment, Measurement, Obtained
from autotune.report.breaks import SettingsCell, breakable
from autotune.report.doubts import retried_steps
from autotune.report.wording import DEFAULTS, card, plain
from autotune.settings import AllocatorSettings
from autotune.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True)
class Largest:
    """The answer for one of the settings."""

    settings: AllocatorSettings
    value: int | None
    """None where not even the smallest value runs."""
    at_the_end: bool
    """True where the largest value of the range runs, so that a larger one might."""
    measurement: Measurement | None
    """Of the run with that value."""
    runs: int

    @property
    def values_per_second(self) -> float | None:
        """The value over the median step time: samples a second, if the argument is a batch size."""
        seconds = self.measurement.median_step_seconds if self.measurement else None
        return self.value / seconds if seconds and self.value is not None else None


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """What was asked and what came of it."""

    script: str
    argument: str
    values: range
    memory_limit: int | None
    obtained: Obtained
    environment: Environment
    answers: tuple[Largest, ...]


def document(fitted: Fitted) -> dict[str, Any]:
    """What `fit --json` prints."""
    values = fitted.values
    return {
        "script": fitted.script,
        "argument": fitted.argument,
        "range": f"{values[0]}:{values[-1]}:{values.step}",
        "memory_limit_bytes": fitted.memory_limit,
        "obtained": str(fitted.obtained),
        "environment": asdict(fitted.environment),
        "results": [
            {
                "settings": str(answer.settings),
                "largest": answer.value,
                "is_end_of_range": answer.at_the_end,
                "peak_reserved_bytes": answer.measurement.peak_reserved_bytes if answer.measurement else None,
                "step_seconds": answer.measurement.median_step_seconds if answer.measurement else None,
                "values_per_second": answer.values_per_second,
                "steps_with_retries": retried_steps(answer.measurement) if answer.measurement else None,
                "runs": answer.runs,
            }
            for answer in fitted.answers
        ],
    }


def print_fitted(fitted: Fitted, console: Console) -> None:
    """What was asked and how the numbers came about; the table; what to know about it."""
    console.print(plain(_head(fitted)), style="bold", markup=False, highlight=False)
    console.print(_table(fitted))
    for text in _notes(fitted):
        console.print(breakable(text, console.width), markup=False, highlight=False)


def _head(fitted: Fitted) -> str:
    where = card(fitted.environment)
    limit = f", memory limit {format_bytes(fitted.memory_limit)}" if fitted.memory_limit else ""
    return f"{str(fitted.obtained).capitalize()}: largest value of {fitted.argument} on {where}{limit}."


def _table(fitted: Fitted) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    timed = fitted.obtained is Obtained.MEASURED
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("settings")
    for name in ("largest", "reserved", *(("step time", "values/s") if timed else ()), "runs"):
        table.add_column(name, justify="right")
    for answer in fitted.answers:
        found, rate = answer.measurement, answer.values_per_second
        memory, seconds = (found.peak_reserved_bytes, found.median_step_seconds) if found else (None, None)
        cells = [
            "none" if answer.value is None else f"{answer.value}",
            format_bytes(memory) if memory is not None else "",
        ]
        if timed:
            cells += [format_seconds(seconds) if seconds else "", _rate(rate) if rate else ""]
        settings = SettingsCell(str(answer.settings) or DEFAULTS)
        table.add_row(settings, *map(Text, [*cells, str(answer.runs)]))
    return table


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _notes(fitted: Fitted) -> Sequence[str]:
    notes = [
        "Found by bisection; memory does not always grow with the value, so a larger one can run, too, and "
        "a smaller one fail."
    ]
    retried = [one for one in fitted.answers if one.measurement and retried_steps(one.measurement)]
    notes += [
        f"With {one.value} under {str(one.settings) or 'the defaults'} {retried_steps(one.measurement)} "
        "measured steps contain allocation retries, in which everything cached is given back and the GPU "
        "waits: a somewhat smaller value may do more a second."
        for one in retried
        if one.measurement
    ]
    if fitted.obtained is not Obtained.MEASURED:
        notes.append(
            "Recorded without a GPU: the CUDA context (about 0.5 GiB) and some of what libraries take for "
            "themselves are not counted, so leave room and check on the GPU."
        )
    if any(answer.at_the_end for answer in fitted.answers):
        notes.append(
            f"{fitted.values[-1]} is the end of the range and runs: give a larger --range to find the limit."
        )
    if all(answer.value is None for answer in fitted.answers):
        notes.append(
            f"Not even {fitted.values[0]} runs under any of the settings: give a range that begins lower."
        )
    return notes
