"""`autotune report`: what a study found, as a table, as an HTML page, or as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from autotune.cli.options import add_study_arguments, open_chosen_study
from autotune.cli.pictures import check_picture, write_picture


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_study_arguments(parser)
    parser.add_argument(
        "--list", action="store_true", help="list the studies of the database instead, the newest first"
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page that needs no network")
    parser.add_argument(
        "--png", type=Path, metavar="FILE", help="draw memory and time of all trials (extra: image)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="leave out what matters, for which the trace is replayed"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Show the study; 1 while nothing has completed."""
    return _list(options) if options.list else _report(options)


def _list(options: argparse.Namespace) -> int:
    from autotune.errors import UsageError
    from autotune.report.listed import document, lines, listed
    from autotune.study.book import own_studies
    from autotune.study.storage import open_storage, reading_errors, without_password

    if options.study is not None or options.html is not None or options.png is not None:
        raise UsageError("--list shows every study in a line each; leave out STUDY, --html and --png.")
    with reading_errors(without_password(options.storage)):
        found = [listed(study) for study in own_studies(open_storage(options.storage, read_only=True))]
    for line in [json.dumps(document(found), indent=2)] if options.json else lines(found):
        print(line)
    return 0


def _report(options: argparse.Namespace) -> int:
    from rich.console import Console

    from autotune.cli.output import HTML, may_write, write_page
    from autotune.report.summary import document, summarise
    from autotune.report.terminal import print_report
    from autotune.study.evidence import matters_of
    from autotune.study.storage import reading_errors, without_password

    check_picture(options.png)
    if options.html is not None:
        may_write(options.html, HTML)
    study = open_chosen_study(options)
    with reading_errors(without_password(options.storage)):
        summary = summarise(study)
        matters = None if options.quick else matters_of(study, summary)
    if options.html is not None:
        from autotune.report.page import render_page

        write_page(options.html, render_page(summary, matters))
        print(f"autotune: wrote {options.html}", file=sys.stderr)
    if options.png is not None:
        from autotune.report.figures import pair_figure

        write_picture(pair_figure(summary, 0, 2), options.png)
        print(f"autotune: wrote {options.png}", file=sys.stderr)
    if options.json:
        print(json.dumps(document(summary, matters), indent=2))
    else:
        print_report(summary, Console(), matters)
    return 0 if summary.recommended is not None else 1
