"""`autotune record`: run a script once and write down every allocation it makes."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.cli.streams import say

if TYPE_CHECKING:
    from autotune.measurement import Measurement
    from autotune.trace import Trace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--script", type=Path, required=True, metavar="FILE", help="the script to record")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="trace file to write"
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it is an earlier recording")
    parser.add_argument("--warmup", type=int, default=5, metavar="N", help="steps of warm-up (default 5)")
    parser.add_argument("--steps", type=int, default=20, metavar="N", help="steps after those (default 20)")
    parser.add_argument("--python", default="", metavar="PATH", help="interpreter that runs the script")
    parser.add_argument("--device", type=int, default=0, metavar="N", help="index of the GPU (default 0)")
    parser.add_argument("--gpu", metavar="NAME|SIZE", help="the GPU that an estimate is for")
    parser.add_argument(
        "--selected", type=float, metavar="SHARE",
        help="without a GPU: share of a mask that is taken to be selected where only a GPU would know",
    )  # fmt: skip
    parser.add_argument("--memory-limit", metavar="SIZE", help="memory that the script may reserve")
    parser.add_argument(
        "--settings", default="", metavar="S", help="allocator settings while recording (default: none)"
    )
    parser.add_argument("--timeout", type=float, default=600, metavar="S", help="seconds (default 600)")
    seed = parser.add_mutually_exclusive_group()
    seed.add_argument("--seed", type=int, default=0, metavar="N", help="seed of random, numpy, torch")
    seed.add_argument("--no-seed", dest="seed", action="store_const", const=None, help="leave them alone")
    parser.add_argument("arguments", nargs="*", metavar="-- ARGS", help="arguments of the script itself")


def run(options: argparse.Namespace) -> int:
    """Record; say what was recorded, whether a replay reproduces it, and what to do next."""
    from autotune import trace
    from autotune.allocator.devices import card
    from autotune.errors import UsageError, WorkFailedError
    from autotune.measurement import Outcome
    from autotune.settings import AllocatorSettings, parse_torch_version
    from autotune.trial.preflight import preflight
    from autotune.trial.recording import check_place, record
    from autotune.trial.runner import Job
    from autotune.units import parse_size

    check_place(options.output, replace=options.force)
    settings = AllocatorSettings.parse(options.settings)
    gpu = card(options.gpu) if options.gpu else None
    if options.selected is not None and not 0 <= options.selected <= 1:
        raise UsageError(f"--selected {options.selected:g} is no share; give a number from 0 to 1.")
    job = Job(
        script=options.script,
        arguments=tuple(options.arguments),
        python=options.python,
        device=options.device,
        warmup_steps=options.warmup,
        measured_steps=options.steps,
        seed=options.seed,
        timeout_seconds=options.timeout,
        memory_limit_bytes=parse_size(options.memory_limit) if options.memory_limit else None,
        directory=Path("autotune-runs") / options.script.stem,
    )
    facts = preflight(job)
    settings.validate(parse_torch_version(facts.torch or ""))
    measurement = record(
        job, facts, options.output, settings=settings, card=gpu, selected=options.selected, say=say
    )
    if measurement.outcome is Outcome.OUT_OF_MEMORY:
        say(f"The script ran out of memory; what it did until then is recorded. {measurement.reason}")
    elif measurement.outcome is not Outcome.COMPLETED:
        raise WorkFailedError(f"Nothing was recorded: {measurement.why}")
    _report(options.output, trace.load(options.output), measurement)
    return 0


def _report(path: Path, trace: Trace, measurement: Measurement) -> None:
    from autotune.allocator.selfcheck import self_check
    from autotune.units import format_bytes, format_seconds

    steps = len(trace.step_ends)
    took = f" in {format_seconds(measurement.script_seconds)}" if measurement.script_seconds else ""
    counted = f"{steps} steps" if steps else "no step boundaries"
    print(f"Recorded {trace.num_operations:,} allocations and frees, {counted}{took}: {path}")
    if measurement.peak_reserved_bytes is not None:
        what = "Peak reserved, estimated" if trace.recording.estimated else "Peak reserved in that run"
        print(f"{what}: {format_bytes(measurement.peak_reserved_bytes)}.")
    for note in (*trace.recording.notes, *measurement.notes):
        say(note)
    if not trace.recording.estimated:
        print(self_check(trace).sentence())
    shown = shlex.quote(str(path))
    print(f"\nNext: python -m autotune replay {shown} --settings '' --settings expandable_segments:True")
    print(f"      python -m autotune run --trace {shown}")
