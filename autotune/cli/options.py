"""Options that several commands share: which database, and which study in it."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optuna import Study

    from autotune.report.summary import Summary

DEFAULT_STORAGE = "sqlite:///autotune.db"


def add_storage_option(parser: argparse.ArgumentParser) -> None:
    """Declare `--storage`."""
    parser.add_argument(
        "--storage",
        default=DEFAULT_STORAGE,
        metavar="URL",
        help=f"database: sqlite:///FILE.db or postgresql://USER@HOST/NAME (default {DEFAULT_STORAGE})",
    )


def add_study_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `[STUDY]` and `--storage`."""
    parser.add_argument("study", nargs="?", metavar="STUDY", help="name of the study (default: the newest)")
    add_storage_option(parser)


def open_chosen_study(options: argparse.Namespace, *, read_only: bool = True) -> Study:
    """The study that the options name.

    Raises:
        StudyError: there is no such database or study.
    """
    from autotune.study.book import load_study
    from autotune.study.storage import open_storage

    # Read first in any case: only `run` makes databases.
    study = load_study(open_storage(options.storage, read_only=True), options.study)
    return study if read_only else load_study(open_storage(options.storage), study.study_name)


def open_chosen_summary(options: argparse.Namespace) -> Summary:
    """The summary of the study that the options name.

    Raises:
        StudyError: there is no such database or study, or it is damaged.
    """
    from autotune.report.summary import summarise
    from autotune.study.storage import database_errors, without_password

    study = open_chosen_study(options)
    with database_errors(without_password(options.storage)):
        return summarise(study)


def command_line(command: str, study: str, storage: str, *more: str) -> str:
    """A command for this study, ready to copy; a password in the storage's URL is hidden."""
    from autotune.study.storage import without_password

    where = [] if storage == DEFAULT_STORAGE else ["--storage", without_password(storage)]
    # A name that begins with a dash would be taken for an option.
    name = ["--", study] if study.startswith("-") else [study]
    return shlex.join(["python", "-m", "autotune", command, *more, *where, *name])
