"""`autotune export`: the chosen settings as a file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from autotune.cli.options import add_study_arguments, open_chosen_summary

FORMS = ("env", "shell", "docker", "slurm", "json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_study_arguments(parser)
    parser.add_argument(
        "--pick",
        default="balanced",
        metavar="WHICH",
        help="balanced (default): less memory at no cost in time; memory; speed; or trial:N",
    )
    parser.add_argument("--format", choices=FORMS, default="env", help="what to write (default env)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="file to write (default: stdout)")
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")


def run(options: argparse.Namespace) -> int:
    """Write the chosen row."""
    from autotune.report.envfile import render

    summary = open_chosen_summary(options)
    text = render(summary, summary.pick(options.pick), pick=options.pick, form=options.format)
    if options.output is None:
        sys.stdout.write(text)
    else:
        _write(options.output, text, force=options.force)
        print(f"autotune: wrote {options.output}", file=sys.stderr)
    return 0


def _write(path: Path, text: str, *, force: bool) -> None:
    from autotune.cli.output import cannot_write, write_whole
    from autotune.errors import UsageError
    from autotune.study.storage import is_database

    if force and is_database(path):
        raise UsageError(f"{path} is a database, which --force does not replace; name another with -o.")
    try:
        write_whole(path, text.encode(), replace=force)
    except FileExistsError:
        raise UsageError(
            f"{path} exists already; replace it with --force, or name another with -o."
        ) from None
    except OSError as error:
        raise cannot_write(path, error) from error
