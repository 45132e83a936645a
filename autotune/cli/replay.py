"""`autotune replay`: what the allocator would do with a trace under given settings."""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress

    from autotune.report.replayed import Replays
    from autotune.trace import Trace

PATIENCE_SECONDS = 2.0
"""Progress is shown only for work that takes longer."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "file", metavar="FILE", help="a PyTorch memory snapshot, or a trace that `record` wrote"
    )
    parser.add_argument(
        "--settings", action="append", metavar="S",
        help="allocator settings; may be repeated; - reads one a line from stdin, an empty line is the "
        "defaults (default: the recording's own)",
    )  # fmt: skip
    limit = parser.add_mutually_exclusive_group()
    limit.add_argument("--memory-limit", metavar="SIZE", help="memory that may be reserved, such as 24GiB")
    limit.add_argument("--memory-fraction", type=float, metavar="F", help="the same, as a share of the GPU")
    parser.add_argument(
        "--gpu", metavar="NAME|SIZE", help="the GPU, where the trace does not say (default H200)"
    )
    parser.add_argument("--torch", metavar="X.Y", help="whose rules to follow (default: the recording's)")
    parser.add_argument(
        "--engine", choices=("model", "native"), default="model", help="who replays (default model)"
    )
    parser.add_argument(
        "--fit", action="store_true", help="also find the smallest memory in which it completes"
    )
    parser.add_argument("--explain", action="store_true", help="say where the bytes are at the peak")
    parser.add_argument(
        "--device", type=int, metavar="N", help="GPU of a snapshot of several (default: the busiest)"
    )
    parser.add_argument("--partial", action="store_true", help="accept a trace that begins in the middle")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Replay and show."""
    from autotune.trace import load

    with Waiting() as waiting:
        trace = load(options.file, device=options.device, partial=options.partial)
        replays = replay_all(trace, options, waiting)
    for sentence in (*trace.recording.notes, *replays.assumptions):
        print(f"autotune: {sentence}", file=sys.stderr)
    if options.json and replays.check.trusted is False:
        print(f"autotune: {replays.check.sentence()}", file=sys.stderr)
    _write(replays, as_json=options.json)
    return 0


def _write(replays: Replays, *, as_json: bool) -> None:
    """Results to stdout."""
    from rich.console import Console

    from autotune.report.replayed import document, print_replays

    if as_json:
        print(json.dumps(document(replays), indent=2))
    else:
        print_replays(replays, Console())


def replay_all(trace: Trace, options: argparse.Namespace, waiting: Waiting) -> Replays:
    """Everything that the options ask for.

    Raises:
        UsageError: an option cannot be read, or asks for what is not there.
    """
    from autotune import allocator
    from autotune.allocator.conditions import Conditions
    from autotune.allocator.devices import device_total
    from autotune.allocator.selfcheck import self_check
    from autotune.report.replayed import Replays
    from autotune.settings import AllocatorSettings, parse_torch_version

    texts, assumptions = _settings_texts(options.settings, trace)
    settings = [AllocatorSettings.parse(text) for text in texts]
    total = device_total(options.gpu) if options.gpu else None
    release = parse_torch_version(options.torch) if options.torch else None
    conditions = Conditions.of(trace, None, total, release)
    for one in settings:
        one.validate(conditions.torch_version)
    limit, assumed = _memory_limit(options, trace, conditions.device_total)
    waiting.expect("Replaying", len(settings))
    results = allocator.replay_many(
        trace,
        settings,
        memory_limit=limit,
        device_total=total,
        torch_version=release,
        engine=options.engine,
        progress=waiting.done,
    )
    fits = explanations = None
    if options.fit:
        waiting.expect("Looking for the smallest fit", len(settings))
        fits = allocator.smallest_fit_many(
            trace,
            settings,
            device_total=total,
            torch_version=release,
            engine=options.engine,
            progress=waiting.done,
        )
    if options.explain:
        waiting.expect("Explaining", len(settings))
        explanations = [
            allocator.explain(trace, one, memory_limit=limit, device_total=total, torch_version=release)
            for one in settings
        ]
    return Replays(
        file=options.file,
        trace=trace,
        settings=texts,
        results=results,
        fits=fits,
        explanations=explanations,
        check=self_check(trace),
        torch_version=conditions.torch_version,
        device_total=conditions.device_total,
        memory_limit=limit,
        assumptions=(*assumptions, *assumed, *_assumed_conditions(options, trace)),
    )


def _settings_texts(given: Sequence[str] | None, trace: Trace) -> tuple[list[str], tuple[str, ...]]:
    """The settings in the order asked, with `-` replaced by the lines of stdin, and what was assumed."""
    from autotune.errors import UsageError

    if given is None:
        own = trace.recording.settings
        what = f"the recording's own, {own}" if own else "PyTorch's defaults, as in the recording"
        return [own], (f"No --settings given; these are {what}.",)
    texts: list[str] = []
    for text in given:
        if text.strip() != "-":
            texts.append(text.strip())
            continue
        try:
            lines = sys.stdin.read().splitlines()
        except UnicodeDecodeError:
            raise UsageError("The settings on stdin are no text; write one string a line.") from None
        texts += [line.strip() for line in lines]
    if not texts:
        raise UsageError(
            "There are no settings on stdin; write one string a line, an empty line is the defaults."
        )
    return texts, ()


def _memory_limit(
    options: argparse.Namespace, trace: Trace, device_total: int
) -> tuple[int | None, tuple[str, ...]]:
    """The limit asked for, in bytes, or the one that ended the recorded run, and what was assumed."""
    from autotune.allocator.selfcheck import recorded_limit
    from autotune.errors import UsageError
    from autotune.units import format_bytes, parse_size

    if options.memory_limit is not None:
        return parse_size(options.memory_limit), ()
    fraction = options.memory_fraction
    if fraction is not None:
        if not 0 < fraction <= 1:
            raise UsageError(
                f"--memory-fraction {fraction:g} is no share of the GPU; it is above 0 and at most 1."
            )
        return int(fraction * device_total), ()
    limit = recorded_limit(trace) if trace.oom_size is not None else None
    if limit is None:
        return None, ()
    return limit, (
        f"The recorded run ran out of memory and could reserve at least {format_bytes(limit)}, so that is "
        "the limit here; if you know the real one, give it with --memory-limit.",
    )


def _assumed_conditions(options: argparse.Namespace, trace: Trace) -> tuple[str, ...]:
    """What the trace does not say and the command line does not either."""
    from autotune.allocator.result import TAKEN_FOR_H200

    sentences = []
    if not options.gpu and trace.recording.device_total_bytes is None:
        sentences.append(TAKEN_FOR_H200)
    if not options.torch and trace.recording.torch is None:
        sentences.append(
            "The trace does not name its torch; the rules are those of torch 2.11 (--torch says others)."
        )
    return tuple(sentences)


class Waiting:
    """Progress on stderr, once the work has taken more than PATIENCE_SECONDS."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shown: Progress | None = None
        self._timer = threading.Timer(PATIENCE_SECONDS, self._show)
        self._timer.daemon = True
        self._phase, self._expected, self._done = "Reading the trace", 1, 0

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._timer.cancel()
        with self._lock:
            if self._shown is not None:
                self._shown.stop()
            self._phase = ""

    def expect(self, phase: str, count: int) -> None:
        """A new phase begins, of `count` parts."""
        with self._lock:
            self._phase, self._expected, self._done = phase, count, 0
            self._update()

    def done(self, count: int) -> None:
        """So many parts of the phase are done."""
        with self._lock:
            self._done = count
            self._update()

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import Progress

        with self._lock:
            if not self._phase:
                return
            console = Console(stderr=True)
            if not console.is_terminal:
                console.print(f"autotune: {self._phase}…", markup=False, highlight=False)
                return
            self._shown = Progress(console=console, transient=True)
            self._shown.start()
            self._shown.add_task("")
            self._update()

    def _update(self) -> None:
        if self._shown is not None:
            task = self._shown.task_ids[0]
            self._shown.update(task, description=self._phase, total=self._expected, completed=self._done)
