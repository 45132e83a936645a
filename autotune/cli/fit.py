"""`autotune fit`: the largest value of an argument, such as a batch size, that runs."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from autotune.cli.options import (
    add_measuring_arguments,
    add_storage_option,
    add_subject_arguments,
    request_of,
)
from autotune.cli.streams import say

if TYPE_CHECKING:
    from autotune.measurement import Environment, Obtained
    from autotune.settings import AllocatorSettings, TorchVersion
    from autotune.study.largest import Largest
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
    from autotune.errors import UsageError
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
    obtained, environment = ways.obtained, ways.environment
    if options.json:
        print(json.dumps(_document(options, answers, obtained, environment), indent=2))
    else:
        _print(options, answers, obtained, environment, values)
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

    named = options.study is not None
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


def _document(
    options: argparse.Namespace, answers: list[Largest], obtained: Obtained, environment: Environment
) -> dict[str, Any]:
    return {
        "script": str(options.script),
        "argument": options.arg,
        "range": options.range,
        "obtained": str(obtained),
        "environment": asdict(environment),
        "results": [
            {
                "settings": str(answer.settings),
                "largest": answer.value,
                "is_end_of_range": answer.at_the_end,
                "peak_reserved_bytes": answer.measurement.peak_reserved_bytes if answer.measurement else None,
                "step_seconds": answer.measurement.median_step_seconds if answer.measurement else None,
                "values_per_second": _rate(answer),
                "runs": answer.runs,
            }
            for answer in answers
        ],
    }


def _rate(answer: Largest) -> float | None:
    seconds = answer.measurement.median_step_seconds if answer.measurement else None
    return answer.value / seconds if seconds and answer.value is not None else None


def _print(
    options: argparse.Namespace,
    answers: list[Largest],
    obtained: Obtained,
    environment: Environment,
    values: range,
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from autotune.measurement import Obtained
    from autotune.units import format_bytes, format_seconds

    timed = obtained is Obtained.MEASURED
    where = environment.gpu or "a GPU"
    if environment.device_total_bytes and "GPU of" not in where:
        where += f", {format_bytes(environment.device_total_bytes)}"
    limit = f", memory limit {options.memory_limit}" if "memory_limit" in options else ""
    print(f"{str(obtained).capitalize()}: largest value of {options.arg} on {where}{limit}.")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("settings", overflow="fold")
    for name in ("largest", "peak reserved", *(("step time", "values/s") if timed else ()), "runs"):
        table.add_column(name, justify="right")
    for answer in answers:
        found = answer.measurement
        memory = found.peak_reserved_bytes if found else None
        cells = [
            str(answer.settings) or "(PyTorch's defaults)",
            "none" if answer.value is None else str(answer.value),
        ]
        cells.append(format_bytes(memory) if memory is not None else "")
        if timed:
            seconds, rate = found.median_step_seconds if found else None, _rate(answer)
            cells += [format_seconds(seconds) if seconds else "", f"{rate:,.4g}" if rate else ""]
        table.add_row(*map(Text, [*cells, str(answer.runs)]))
    Console().print(table)
    print(
        "Found by bisection; memory does not always grow with the value, so a larger one can run, too, and "
        "a smaller one fail."
    )
    if not timed:
        print(
            "Recorded without a GPU: the CUDA context (about 0.5 GiB) and some of what libraries take for "
            "themselves are not counted, so leave room and check on the GPU."
        )
    if any(answer.at_the_end for answer in answers):
        print(f"{values[-1]} is the end of the range and runs: give a larger --range to find the limit.")
    if all(answer.value is None for answer in answers):
        print(f"Not even {values[0]} runs under any of the settings: give a range that begins lower.")
