"""Options that several commands share: what is run and how, which database, and which study in it."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optuna import Study

    from autotune.report.summary import Summary
    from autotune.study.request import Request

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


def add_subject_arguments(group: argparse._ArgumentGroup) -> None:
    """Declare what is run: a script and its interpreter, or a trace."""
    group.add_argument("--script", type=Path, metavar="FILE", help="a training or serving script, unchanged")
    group.add_argument("--trace", type=Path, metavar="FILE", help="a recorded trace: no script, no GPU")
    group.add_argument("args", nargs="*", metavar="-- ARGS", help="the script's own arguments")
    group.add_argument("--python", metavar="PATH", help="interpreter that runs the script")
    group.add_argument("--gpu", metavar="NAME|SIZE", help="the GPU that it is for, where none is here")
    group.add_argument(
        "--selected", type=float, metavar="SHARE",
        help="without a GPU: share of a mask that is taken to be selected where only a GPU would know",
    )  # fmt: skip
    group.add_argument(
        "--torch", metavar="X.Y", help="whose rules a trace follows (default: the recording's)"
    )


def add_measuring_arguments(group: argparse._ArgumentGroup) -> None:
    """Declare how each run of it is measured."""
    group.add_argument(
        "--memory-limit", metavar="SIZE", help="memory that the script may reserve, such as 24GiB"
    )
    group.add_argument("--warmup", type=int, metavar="N", help="steps before measuring begins (default 5)")
    group.add_argument("--steps", type=int, metavar="N", help="measured steps a run (default 20)")
    group.add_argument("--timeout", type=float, metavar="S", help="seconds a run may take (default 600)")
    seeds = group.add_mutually_exclusive_group()
    seeds.add_argument(
        "--seed", type=int, metavar="N", help="seed of the script, and of a search (default 0)"
    )
    seeds.add_argument(
        "--no-seed", dest="seed", action="store_const", const=None, help="do not seed the script"
    )


def request_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a Request from parsed options, as far as they were given.

    Raises:
        UsageError: a value cannot be read.
    """
    from autotune.allocator.devices import card
    from autotune.settings import parse_torch_version
    from autotune.units import parse_size

    readers: dict[str, tuple[str, Callable[[Any], Any]]] = {
        "memory_limit": ("memory_limit", parse_size),
        "gpu": ("gpu", card),
        "torch": ("torch_version", parse_torch_version),
        "devices": ("devices", _devices),
        "args": ("args", tuple),
        "without": ("without", tuple),
        "settings": ("settings", tuple),
    }
    found = {}
    for name, value in given.items():
        field, read = readers.get(name, (name, lambda value: value))
        if name != "args" or value:
            found[field] = read(value)
    return found


def request_of(options: argparse.Namespace, *, purpose: str) -> Request:
    """The checked request of `add_subject_arguments` and `add_measuring_arguments`.

    Its logs go into a folder named after the purpose.

    Raises:
        UsageError: a value cannot be read, or nothing is named to run.
    """
    from autotune.study.request import Request

    given = {name: value for name, value in vars(options).items() if name in _RUN_OPTIONS}
    path = given.get("script") or given.get("trace")
    request = Request(
        **request_fields(given), study=f"{purpose}-{path.stem if path else ''}", storage=DEFAULT_STORAGE
    )
    request.check(stores=False)
    return request


_RUN_OPTIONS = (
    "script", "trace", "args", "python", "gpu", "selected", "torch",
    "memory_limit", "warmup", "steps", "timeout", "seed",
)  # fmt: skip
"""What the two functions above declare."""


def _devices(text: str) -> tuple[int, ...]:
    from autotune.errors import UsageError

    names = text.split(",")
    if not all(name.strip().isascii() and name.strip().isdigit() for name in names):
        raise UsageError(f"--devices {text} is not a list of GPU numbers; write it as 0 or 0,1.")
    return tuple(int(name) for name in names)


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
    from autotune.study.storage import reading_errors, without_password

    study = open_chosen_study(options)
    with reading_errors(without_password(options.storage)):
        return summarise(study)


def command_line(command: str, study: str, storage: str, *more: str) -> str:
    """A command for this study, ready to copy; a password in the storage's URL is hidden."""
    from autotune.study.storage import without_password

    where = [] if storage == DEFAULT_STORAGE else ["--storage", without_password(storage)]
    # A name that begins with a dash would be taken for an option.
    name = ["--", study] if study.startswith("-") else [study]
    return shlex.join(["python", "-m", "autotune", command, *more, *where, *name])
