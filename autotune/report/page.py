"""The report as one HTML file that needs nothing from the network."""

from __future__ import annotations

import html
from collections.abc import Iterable

from autotune.report import matters_text
from autotune.report.breaks import pieces
from autotune.report.confirmed import confirmations, sentence
from autotune.report.figures import pair_figures, space_figure
from autotune.report.folklore import folklore
from autotune.report.matters import Matters
from autotune.report.shortage import Shortage
from autotune.report.stored import Row
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

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid #d9dee4; vertical-align: top; }
td.number { text-align: right; white-space: nowrap; }
td.settings { font-family: ui-monospace, monospace; }
pre { overflow-x: auto; background: #f3f5f7; padding: .5rem; }
tr.recommended { background: #fdeeea; } tr.front { background: #eef4fd; }
.verdict { font-size: 17px; font-weight: 600; } .note { color: #8a4b00; }
"""


def render_page(summary: Summary, matters: Matters | Shortage | None = None) -> str:
    """The whole page."""
    title = f"autotune: {plain(summary.study)}"
    body = [
        f"<h1>{_escape(title)}</h1>",
        f"<p>{len(summary.rows)} trials of {_escape(subject(summary))}. {_escape(machine(summary))}. "
        f"{_escape(obtained_sentence(summary))}</p>",
        f'<p class="verdict">{_escape(verdict(summary))}</p>',
        f"<p>{_escape(reason(summary))}</p>",
        *_shortage(matters),
        f"<pre>{_escape(assignment(summary))}</pre>",
        *_confirmed(summary),
        *(f'<p class="note">{_escape(warning)}</p>' for warning in warnings(summary)),
        *_figures(summary),
        *_matters(matters),
        *_folklore(summary),
        "<h2>Trials</h2>",
        _table(summary),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{_escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _figures(summary: Summary) -> Iterable[str]:
    if not summary.front:
        return
    # The first figure carries plotly itself; the others use it.
    yield space_figure(summary).to_html(full_html=False, include_plotlyjs=True)
    for figure in pair_figures(summary):
        yield figure.to_html(full_html=False, include_plotlyjs=False)


def _confirmed(summary: Summary) -> Iterable[str]:
    for found in confirmations(summary.rows):
        settings = _escape(plain(found.settings))
        yield f"<p>{found.title}: <code>{settings}</code>. {_escape(sentence(found))}</p>"


def _shortage(matters: Matters | Shortage | None) -> Iterable[str]:
    if isinstance(matters, Shortage):
        yield f"<p>{_escape(' '.join(matters_text.shortage_sentences(matters)))}</p>"


def _matters(matters: Matters | Shortage | None) -> Iterable[str]:
    if isinstance(matters, Matters):
        lines = "".join(f"<li>{_escape(line)}</li>" for line in matters_text.sentences(matters))
        yield f"<h2>What matters here, by replay</h2><ul>{lines}</ul>"


def _folklore(summary: Summary) -> Iterable[str]:
    if lines := folklore(summary):
        yield "<h2>What is often recommended</h2>"
        yield f"<ul>{''.join(f'<li>{_escape(line)}</li>' for line in lines)}</ul>"


def _table(summary: Summary) -> str:
    names = ["trial", "role", "outcome", "settings", "peak reserved", "", "fragmentation"]
    names += [third_objective(summary), "", "reason"]
    head = "".join(f"<th>{_escape(name)}</th>" for name in names)
    rows = "\n".join(_row(summary, row) for row in summary.rows)
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table>"


def _row(summary: Summary, row: Row) -> str:
    shown = cells(summary, row)
    kind = ""
    if any(row.number == member.number for member in summary.front):
        kind = "front"
    if summary.recommended is not None and row.number == summary.recommended.number:
        kind = "recommended"
    texts = [
        ("number", str(row.number)),
        ("", str(row.role)),
        ("", outcome(row)),
        ("settings", plain(shown.settings)),
        ("number", shown.memory if row.completed else ""),
        ("number", shown.memory_change),
        ("number", shown.fragmentation),
        ("number", " ".join(filter(None, (shown.seconds, shown.tail, shown.retries)))),
        ("number", shown.seconds_change),
        ("", plain(row.measurement.reason or "")),
    ]
    inside = "".join(f'<td class="{style}">{_breakable(style, text)}</td>' for style, text in texts)
    return f'<tr class="{kind}">{inside}</tr>'


def _breakable(style: str, text: str) -> str:
    """Settings may break where a value stays whole; `wbr` is not copied with them."""
    return "<wbr>".join(map(_escape, pieces(text))) if style == "settings" else _escape(text)


def _escape(text: str) -> str:
    return html.escape(text, quote=True)
