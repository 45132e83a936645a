"""What optuna-dashboard shows beside its own plots: a note with the recommendation, and our figures."""

from __future__ import annotations

import re
import warnings as python_warnings
from typing import TYPE_CHECKING

from autotune.report.figures import pair_figure, space_figure
from autotune.report.summary import Summary
from autotune.report.terminal import notable
from autotune.report.wording import (
    assignment,
    cells,
    machine,
    obtained_sentence,
    plain,
    reason,
    subject,
    third_objective,
    verdict,
    warnings,
)

if TYPE_CHECKING:
    from optuna import Study


def save_to_dashboard(study: Study, summary: Summary) -> None:
    """Save note and figures into the study; an earlier note and earlier figures of ours are replaced."""
    with python_warnings.catch_warnings():
        python_warnings.simplefilter("ignore")
        from optuna_dashboard import save_note, save_plotly_graph_object

        save_note(study, render_note(summary))
        if summary.front:
            figures = {"autotune-front": space_figure(summary), "autotune-pair": pair_figure(summary, 0, 2)}
            for name, figure in figures.items():
                save_plotly_graph_object(study, figure, graph_object_id=name)


def render_note(summary: Summary) -> str:
    """The report as Markdown."""
    heading = f"| trial | settings | peak reserved | fragmentation | {third_objective(summary)} |"
    lines = [
        f"**{_markdown(verdict(summary))}**",
        "",
        _markdown(reason(summary)),
        "",
        f"    {assignment(summary)}",
        "",
        f"{_markdown(subject(summary))} · {_markdown(machine(summary))}",
        "",
        _markdown(obtained_sentence(summary)),
        *(f"\n*{_markdown(sentence)}*" for sentence in warnings(summary)),
        "",
        heading,
        "|---|---|---|---|---|",
    ]
    for labels, row in notable(summary):
        shown = cells(summary, row)
        columns = (
            f"{row.number} ({', '.join(labels)})",
            shown.settings,
            f"{shown.memory} {shown.memory_change}".strip(),
            shown.fragmentation,
            f"{shown.seconds} {shown.seconds_change}".strip(),
        )
        lines.append("| " + " | ".join(_markdown(column) for column in columns) + " |")
    return "\n".join(lines) + "\n"


def _markdown(text: str) -> str:
    """The text, with nothing in it that Markdown or HTML would obey."""
    return re.sub(r"([\\`*_\[\]<>|&~#!])", r"\\\1", plain(text))
