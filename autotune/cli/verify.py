"""`autotune verify`: measure a study's claim again; exit status 1 if it no longer holds."""

from __future__ import annotations

import argparse
import contextlib
import json
from typing import TYPE_CHECKING, Any

from autotune.cli.options import add_study_arguments, open_chosen_summary
from autotune.cli.streams import say

if TYPE_CHECKING:
    from autotune.measurement import Measurement, Obtained
    from autotune.report.stored import Conditions
    from autotune.report.summary import Summary
    from autotune.study.verify import Claim, Verdict


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_study_arguments(parser)
    parser.add_argument(
        "--settings",
        metavar="S",
        help="settings to compare with the defaults (default: the recommended ones)",
    )
    parser.add_argument(
        "--rounds", type=int, default=3, metavar="N", help="runs of each, in turn (default 3)"
    )
    parser.add_argument(
        "--steps",
        type=int,
        metavar="N",
        help="measured steps a run (default: as many as it was claimed with)",
    )
    parser.add_argument("--python", default="", metavar="PATH", help="interpreter that runs the script")
    parser.add_argument("--device", type=int, default=0, metavar="N", help="index of the GPU (default 0)")
    parser.add_argument(
        "--timeout", type=float, default=600, metavar="S", help="seconds a run may take (default 600)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Measure, compare with the claim, say so. Nothing is stored."""
    from autotune.settings import parse_torch_version
    from autotune.study.verify import claim_of, judge, measure, rounds_of, runner_of

    _check(options)
    summary = open_chosen_summary(options)
    claim = claim_of(summary, options.settings)
    torch = summary.conditions.environment.torch
    if torch:
        claim.settings.validate(parse_torch_version(torch))
    steps = options.steps or (summary.conditions.measured_steps or 1) * claim.times_steps
    runner = runner_of(
        summary.study,
        summary.conditions,
        steps=steps,
        python=options.python,
        timeout=options.timeout,
        device=options.device,
        say=say,
    )
    rounds = rounds_of(runner, options.rounds)
    say(f"{2 * rounds} runs: PyTorch's defaults and {claim.settings}, in turn.")
    with contextlib.closing(runner):
        found = measure(runner, claim.settings, rounds=rounds, steps=steps, heard=_progress(rounds))
    verdict = judge(claim, found)
    if options.json:
        print(json.dumps(_document(summary, claim, verdict, str(runner.obtained)), indent=2))
    else:
        _print(claim, verdict, _how(summary.conditions, runner.obtained, rounds))
    return 0 if verdict.holds else 1


MOST = 100_000
"""Rounds, and steps; nobody waits for more."""


def _check(options: argparse.Namespace) -> None:
    from autotune.errors import UsageError
    from autotune.trial.preflight import check_timeout

    for name, value in (("rounds", options.rounds), ("steps", options.steps)):
        if value is not None and not 1 <= value <= MOST:
            few = "few" if value < 1 else "many"
            raise UsageError(f"--{name} {value!s:.20} is too {few}; it takes 1 to {MOST:,}.")
    check_timeout(options.timeout)


def _progress(rounds: int) -> Any:
    from autotune.units import format_bytes, format_seconds

    def heard(number: int, found: Measurement) -> None:
        memory, seconds = found.peak_reserved_bytes, found.median_step_seconds
        parts = [found.outcome.words]
        parts += [format_bytes(memory)] if memory is not None else []
        parts += [format_seconds(seconds)] if seconds is not None else []
        say(f"{number + 1}/{2 * rounds}  {'  '.join(parts)}  {found.settings or '(the defaults)'}")

    return heard


def _document(summary: Summary, claim: Claim, verdict: Verdict, obtained: str) -> dict[str, Any]:
    return {
        "study": summary.study,
        "settings": str(claim.settings),
        "obtained": obtained,
        "claim": {"peak_reserved_ratio": claim.memory, "step_seconds_ratio": claim.seconds},
        "found": verdict.found.to_json(),
        "holds": verdict.holds,
        "verdict": verdict.sentence,
    }


def _how(conditions: Conditions, obtained: Obtained, rounds: int) -> str:
    """How the finding came about, and so what it can show."""
    from autotune.measurement import Obtained

    if obtained is Obtained.MEASURED:
        return f"In {rounds} rounds in fresh processes"
    if conditions.measured_steps is not None:
        return "In an estimate made anew from the script as it is now, which measures nothing"
    return "In replays of the same recording, which show a change of the allocator's rules and no other"


def _print(claim: Claim, verdict: Verdict, how: str) -> None:
    from rich.console import Console

    from autotune.report.confirmed import sentence
    from autotune.units import format_change

    words = []
    if claim.memory is not None:
        words.append(f"peak reserved {format_change(claim.memory, 1)}")
    if claim.seconds is not None:
        words.append(f"step time {format_change(claim.seconds, 1)}")
    claimed = ", ".join(words) if words else "it runs where the defaults do not"
    console = Console()
    found = f"Found     {sentence(verdict.found, how=how)}"
    # One line however long: it is there to be copied.
    console.print(f"Settings  {claim.settings}", markup=False, highlight=False, soft_wrap=True)
    for text in (f"Claimed   {claimed}", found, verdict.sentence):
        console.print(text, markup=False, highlight=False)
