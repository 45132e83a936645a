"""`autotune sweep`: one option through several values, as a table and a figure."""

from __future__ import annotations

import argparse
import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.cli.options import add_measuring_arguments, add_subject_arguments, request_of
from autotune.cli.pictures import check_picture, write_picture
from autotune.cli.streams import say

if TYPE_CHECKING:
    from autotune.report.swept import Swept


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("option", metavar="OPTION", help="allocator option, such as max_split_size_mb")
    parser.add_argument("--values", metavar="V,V…", help="its values (default: a few that span its range)")
    parser.add_argument("--base", default="", metavar="S", help="settings that all have (default: none)")
    group = parser.add_argument_group("what to run", argument_default=argparse.SUPPRESS)
    add_subject_arguments(group)
    add_measuring_arguments(group)
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the figure as a page")
    parser.add_argument("--png", type=Path, metavar="FILE", help="write it as a picture (extra: image)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Measure each value; 1 if none completes."""
    from rich.console import Console

    from autotune.cli.output import HTML, may_write
    from autotune.report.swept import document, print_swept

    check_picture(options.png)
    if options.html is not None:
        may_write(options.html, HTML)
    swept = _sweep(options)
    if options.json:
        print(json.dumps(document(swept), indent=2))
    else:
        print_swept(swept, Console())
    _write_figures(swept, options)
    return 0 if any(row.completed for row in swept.rows) else 1


def _sweep(options: argparse.Namespace) -> Swept:
    from autotune.report.stored import Row
    from autotune.report.swept import Swept
    from autotune.report.wording import outcome
    from autotune.settings import NEWEST_KNOWN_TORCH, AllocatorSettings
    from autotune.study.prepare import look_at, runner_for
    from autotune.study.sweep import VALUES, settings_of, sweep
    from autotune.units import format_bytes

    request = request_of(options, purpose="sweep")
    base = AllocatorSettings.parse(options.base)
    values = _values(options.values) if options.values else VALUES.get(options.option, ())
    settings_of(options.option, values, base, NEWEST_KNOWN_TORCH, limited=request.memory_limit is not None)
    subject = look_at(request)
    base.validate(subject.torch_version)
    chosen = settings_of(
        options.option, values, base, subject.torch_version, limited=request.memory_limit is not None
    )

    def heard(row: Row) -> None:
        memory = row.measurement.peak_reserved_bytes
        shown = format_bytes(memory) if row.completed and memory is not None else outcome(row)
        say(f"{row.number + 1}/{len(chosen) + 1}  {shown}  {row.settings or '(the defaults)'}")

    runner, conditions = runner_for(subject, None, say)
    with contextlib.closing(runner):
        rows = sweep(runner, base, chosen, heard)
    return Swept(
        option=options.option,
        subject=str(request.script or request.trace),
        obtained=runner.obtained,
        environment=conditions.environment,
        labels=("(not set)", *values),
        rows=tuple(rows),
    )


def _values(text: str) -> tuple[str, ...]:
    """Values between commas; a list of divisions in brackets is one value."""
    import re

    from autotune.errors import UsageError

    values = [value.strip() for value in re.split(r",(?![^\[]*\])", text)]
    if not any(values):
        raise UsageError(f"--values {text!r} names no value; write it as 32,64,128.")
    return tuple(dict.fromkeys(value for value in values if value))


def _write_figures(swept: Swept, options: argparse.Namespace) -> None:
    from autotune.cli.output import write_page
    from autotune.report.swept import figure

    if options.html is not None:
        write_page(options.html, figure(swept).to_html(include_plotlyjs=True))
        say(f"wrote {options.html}")
    if options.png is not None:
        write_picture(figure(swept), options.png)
        say(f"wrote {options.png}")
