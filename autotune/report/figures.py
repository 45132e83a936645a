"""The Pareto front as plotly figures: one in three dimensions, one for each pair of objectives."""

from __future__ import annotations

import html
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from autotune.report.objectives import point
from autotune.report.stored import Row
from autotune.report.summary import Summary
from autotune.report.wording import DEFAULTS, plain

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_GROUPS = (
    ("other trials", "#9aa5b1", "circle"),
    ("front", "#2f6fde", "circle"),
    ("defaults", "#111111", "diamond"),
    ("recommended", "#d4351c", "square"),
)
"""Legend entry, colour and mark; later ones are drawn over earlier ones."""


WIDE = 4
"""A range of memory this many times its smallest value is shown on a logarithmic axis."""


def space_figure(summary: Summary) -> Figure:
    """All three objectives at once."""
    from plotly.graph_objects import Figure, Scatter3d

    figure = Figure()
    for (name, colour, mark), rows in _grouped(summary):
        x, y, z = (_scaled(summary, rows, axis) for axis in range(3))
        figure.add_trace(
            Scatter3d(
                x=x, y=y, z=z, name=name, mode="markers", text=_hover(rows), hoverinfo="text+x+y+z",
                marker={"size": 4 if name == "other trials" else 6, "color": colour, "symbol": mark},
            )
        )  # fmt: skip
    titles = [metric.title for metric in summary.metrics]
    axes = {f"{axis}axis": {"title": {"text": title}} for axis, title in zip("xyz", titles, strict=True)}
    figure.update_layout(
        scene=axes, height=600, margin={"l": 0, "r": 0, "t": 40, "b": 0}, title=_title(summary)
    )
    return figure


def pair_figures(summary: Summary) -> list[Figure]:
    """One figure for each pair of objectives."""
    return [pair_figure(summary, first, second) for first, second in combinations(range(3), 2)]


def pair_figure(summary: Summary, first: int, second: int) -> Figure:
    """Two of the three objectives; `first` on the x axis."""
    from plotly.graph_objects import Figure, Scatter

    figure = Figure()
    for (name, colour, mark), rows in _grouped(summary):
        figure.add_trace(
            Scatter(
                x=_scaled(summary, rows, first), y=_scaled(summary, rows, second), name=name, mode="markers",
                text=_hover(rows), hoverinfo="text+x+y",
                marker={"size": 8 if name == "other trials" else 11, "color": colour, "symbol": mark},
            )
        )  # fmt: skip
    figure.update_layout(
        xaxis_title=summary.metrics[first].title,
        yaxis_title=summary.metrics[second].title,
        height=420,
        title=_title(summary),
    )
    reserved = _scaled(summary, summary.rows, 0)
    if first == 0 and reserved and max(reserved) > WIDE * min(reserved):
        # Else one bad setting pushes everything of interest into a corner.
        figure.update_xaxes(type="log", dtick="D2")
    return figure


def _grouped(summary: Summary) -> list[tuple[tuple[str, str, str], list[Row]]]:
    special = {
        "front": {row.number for row in summary.front},
        "defaults": {summary.baseline.number} if summary.baseline else set(),
        "recommended": {summary.recommended.number} if summary.recommended else set(),
    }
    groups: dict[str, list[Row]] = {name: [] for name, _, _ in _GROUPS}
    for row in summary.rows:
        if point(row) is not None:
            names = [name for name in special if row.number in special[name]]
            groups[names[-1] if names else "other trials"].append(row)
    return [(group, groups[group[0]]) for group in _GROUPS if groups[group[0]]]


def _scaled(summary: Summary, rows: Sequence[Row], axis: int) -> list[float]:
    return [found[axis] * summary.metrics[axis].scale for row in rows if (found := point(row))]


def _hover(rows: Sequence[Row]) -> list[str]:
    return [
        html.escape(f"trial {row.number} ({row.role}): {plain(row.settings) or DEFAULTS}") for row in rows
    ]


def _title(summary: Summary) -> str:
    return html.escape(f"{plain(summary.study)} ({summary.conditions.obtained})")
