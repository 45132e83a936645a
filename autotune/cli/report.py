"""`autotune report`: what a study found, as a table, as an HTML page, or as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from autotune.cli.options import add_study_arguments, open_chosen_summary


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_study_arguments(parser)
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page that needs no network")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Show the study; 1 while nothing has completed."""
    from rich.console import Console

    from autotune.errors import UsageError
    from autotune.report.summary import document
    from autotune.report.terminal import print_report

    summary = open_chosen_summary(options)
    if options.html is not None:
        from autotune.report.page import render_page

        try:
            options.html.write_text(render_page(summary), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{options.html} cannot be written: {error.strerror}.") from error
        print(f"autotune: wrote {options.html}", file=sys.stderr)
    if options.json:
        print(json.dumps(document(summary), indent=2))
    else:
        print_report(summary, Console())
    return 0 if summary.recommended is not None else 1
