"""A sweep shown: as a table, as JSON, as a figure of memory and time over the option's values."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from autotune.measurement import Environment, Obtained
from autotune.metrics import metric_values, objectives
from autotune.report.breaks import SettingsCell, breakable
from autotune.report.objectives import point
from autotune.report.stored import Row
from autotune.report.wording import outcome, plain, seconds_with_spread
from autotune.units import format_bytes, format_change, format_percent

if TYPE_CHECKING:
    from plotly.graph_objects import Figure
    from rich.console import Console


@dataclass(frozen=True, kw_only=True)
class Swept:
    """One option's values and what came of them; the first row is the base, without the option."""

    option: str
    subject: str
    obtained: Obtained
    environment: Environment
    labels: tuple[str, ...]
    """Of each row: the value, or what the base is called."""
    rows: tuple[Row, ...]


def document(swept: Swept) -> dict[str, Any]:
    """What `sweep --json` prints."""
    return {
        "option": swept.option,
        "subject": swept.subject,
        "obtained": str(swept.obtained),
        "environment": asdict(swept.environment),
        "results": [
            {
                "value": label if number else None,
                "settings": row.settings,
                "outcome": str(row.measurement.outcome),
                "reason": row.measurement.reason,
                "metrics": metric_values(row.measurement) if row.completed else {},
                "num_alloc_retries": row.measurement.num_alloc_retries,
            }
            for number, (label, row) in enumerate(zip(swept.labels, swept.rows, strict=True))
        ],
    }


def print_swept(swept: Swept, console: Console) -> None:
    """What was swept and how the numbers came about; the table."""
    from rich import box
    from rich.table import Table

    timed = swept.obtained is Obtained.MEASURED
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for name in ("value", "peak reserved", "change", "fragm.", _speed_name(timed), "retries"):
        table.add_column(name, justify="left" if name == "value" else "right")
    reference = point(swept.rows[0])
    for label, row in zip(swept.labels, swept.rows, strict=True):
        found = point(row)
        if found is None:
            table.add_row(SettingsCell(label), outcome(row), "", "", "", "")
            continue
        table.add_row(
            SettingsCell(label),
            format_bytes(found[0]),
            format_change(found[0], reference[0]) if reference and row.number else "",
            format_percent(found[1]),
            seconds_with_spread(row.measurement, found[2]),
            f"{row.measurement.num_alloc_retries or 0:,}",
        )
    environment = swept.environment
    where = ", ".join(filter(None, (environment.gpu, environment.torch and f"torch {environment.torch}")))
    text = f"{swept.option}, {swept.obtained}: {swept.subject}" + (f" on {where}" if where else "")
    console.print(breakable(plain(text), console.width), style="bold", markup=False, highlight=False)
    console.print(table)


def figure(swept: Swept) -> Figure:
    """Peak reserved (left axis) and the third objective (right axis) over the values."""
    from plotly.graph_objects import Figure, Scatter

    memory, _, seconds = objectives(swept.obtained)
    labels, reserved, time = _series(swept)
    made = Figure()
    made.add_trace(
        Scatter(
            x=labels, y=[memory.scale * value for value in reserved], name=memory.title, mode="lines+markers"
        )
    )
    made.add_trace(
        Scatter(
            x=labels, y=[seconds.scale * value for value in time], name=seconds.title, mode="lines+markers",
            yaxis="y2", line={"dash": "dot"},
        )
    )  # fmt: skip
    made.update_layout(
        title=html.escape(f"{swept.option} ({swept.obtained})"),
        xaxis={"type": "category", "title": swept.option},
        yaxis={"title": memory.title, "rangemode": "tozero"},
        yaxis2={"title": seconds.title, "overlaying": "y", "side": "right", "rangemode": "tozero"},
        legend={"orientation": "h", "y": 1.1},
    )
    return made


def _series(swept: Swept) -> tuple[Sequence[str], Sequence[float], Sequence[float]]:
    found = [
        (label, values)
        for label, row in zip(swept.labels, swept.rows, strict=True)
        if (values := point(row)) is not None
    ]
    return [label for label, _ in found], [one[0] for _, one in found], [one[2] for _, one in found]


def _speed_name(timed: bool) -> str:
    return "step time" if timed else "driver time"
