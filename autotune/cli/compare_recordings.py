"""`autotune compare-recordings`: two traces of the same script side by side, to check an estimate."""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("first", type=Path, metavar="A", help="a recording, or a PyTorch memory snapshot")
    parser.add_argument("second", type=Path, metavar="B", help="another, of the same script")
    parser.add_argument(
        "--settings", action="append", metavar="S",
        help="settings to replay both under (default: none, and expandable_segments:True)",
    )  # fmt: skip
    parser.add_argument("--torch", metavar="X.Y", help="whose rules both follow (default: those of A's)")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(options: argparse.Namespace) -> int:
    """Replay both, and print what differs."""
    from rich.console import Console

    from autotune import allocator, trace
    from autotune.allocator.conditions import Conditions
    from autotune.report.compared import Peak, compare, document, print_comparison
    from autotune.settings import AllocatorSettings, parse_torch_version

    traces = trace.load(options.first), trace.load(options.second)
    release = parse_torch_version(options.torch) if options.torch else None
    conditions = Conditions.of(traces[0], None, None, release)
    settings = [
        AllocatorSettings.parse(text) for text in options.settings or ("", "expandable_segments:True")
    ]
    found = [
        allocator.replay_many(
            one,
            settings,
            torch_version=conditions.torch_version,
            device_total=conditions.device_total,
        )
        for one in traces
    ]
    peaks = [
        Peak(settings=str(each), reserved_bytes=(first.peak_reserved_bytes, second.peak_reserved_bytes))
        for each, first, second in zip(settings, *found, strict=True)
    ]
    comparison = compare(traces, (str(options.first), str(options.second)), peaks)
    if options.json:
        print(json.dumps(document(comparison), indent=2))
    else:
        print_comparison(comparison, Console())
    return 0
