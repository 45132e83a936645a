"""`autotune fit`: the largest value of an argument, such as a batch size, that runs."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from autotune.cli.options import (
    DEFAULT_STORAGE,
    add_measuring_arguments,
    add_storage_option,
    add_subject_arguments,
    request_of,
)
from autotune.cli.streams import say

if TYPE_CHECKING:
    from autotune.settings import AllocatorSettings, TorchVersion
    from autotune.study.request import Request


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "--arg", required=True, metavar="TEXT", help="the argument, {} for its value: --arg '--batch-size {}'"
    )
    parser.add_argument("--range", required=True, metavar="LO:HI[:STEP]", help="values to look among")
    parser.add_argument(
        "--settings",
        action="append",
        metavar="S",
        help="settings to look at, besides defaults and expandable",
    )
    parser.add_argument(
        "--study",
        metavar="NAME",
        help="whose recommendation to look at (default: the script's, if there is one)",
    )
    add_storage_option(parser)
    group = parser.add_argument_group("what to run", argument_default=argparse.SUPPRESS)
    add_subject_arguments(group)
    add_measuring_arguments(group)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Look for each settings' largest value; 1 if none has one."""
    from rich.console import Console

    from autotune.errors import UsageError
    from autotune.report.fitted import Fitted, document, print_fitted
    from autotune.study.attempts import attempts
    from autotune.study.largest import largest_of_each, parse_range, with_value
    from autotune.study.prepare import look_at

    values = parse_range(options.range)
    with_value(options.arg, values[0])
    request = request_of(options, purpose="fit")
    if request.script is None:
        raise UsageError("fit runs a script; name one with --script.")
    subject = look_at(request)
    settings = _settings(options, request, subject.torch_version)
    seen: dict[AllocatorSettings, dict[int, int]] = {}
    with attempts(subject, options.arg, say) as ways:
        answers = largest_of_each(_told(ways.attempt, seen), settings, values, ways.predict)
    fitted = Fitted(
        script=str(request.script),
        argument=options.arg,
        values=values,
        memory_limit=request.memory_limit,
        obtained=ways.obtained,
        environment=ways.environment,
        answers=tuple(answers),
    )
    if options.json:
        print(json.dumps(document(fitted), indent=2))
    else:
        print_fitted(fitted, Console())
    if any(len(found) > 1 and len(set(found.values())) == 1 for found in seen.values()):
        say(f"Every value took the same memory; does the script heed {options.arg}?")
    return 0 if any(answer.value is not None for answer in answers) else 1


def _settings(
    options: argparse.Namespace, request: Request, torch_version: TorchVersion
) -> list[AllocatorSettings]:
    """Expandable segments first, as what they fit is the best guess for the others; then tuned, defaults."""
    from autotune.settings import AllocatorSettings

    tuned = [AllocatorSettings.parse(text) for text in options.settings or ()]
    if not tuned and (text := _recommended(options, request)):
        tuned = [AllocatorSettings.parse(text)]
    found = [AllocatorSettings(expandable_segments=True), *tuned, AllocatorSettings()]
    for one in found:
        one.validate(torch_version)
    return list(dict.fromkeys(found))


def _recommended(options: argparse.Namespace, request: Request) -> str | None:
    """The recommendation of the named study; of the script's own, if there is one."""
    from autotune.cli.options import open_chosen_summary
    from autotune.errors import StudyError

    named = options.study is not None or options.storage != DEFAULT_STORAGE
    assert request.script is not None
    options.study = options.study or request.script.stem
    try:
        summary = open_chosen_summary(options)
    except StudyError:
        if named:
            raise
        return None
    if summary.recommended is None or not summary.recommended.settings:
        return None
    say(f"Study '{summary.study}' recommends {summary.recommended.settings}.")
    return summary.recommended.settings


def _told(attempt: Any, seen: dict[AllocatorSettings, dict[int, int]]) -> Any:
    """The attempt, told to whoever watches; `seen` keeps the peak of each value that completed."""
    from autotune.units import format_bytes

    def told(settings: AllocatorSettings, value: int) -> Any:
        found = attempt(settings, value)
        memory = found.peak_reserved_bytes
        if memory and found.completed:
            seen.setdefault(settings, {})[value] = memory
        words = found.outcome.words
        shown = f"{words}, {format_bytes(memory)}" if memory else words
        say(f"{value}: {shown}  {str(settings) or '(the defaults)'}")
        return found

    return told
