"""How fast the model replays, against PyTorch's own allocator where that can run.

    python -m benchmarks.bench_model [--json] [TRACE …]

Four figures: operations per second on one core, by trace and settings; the same of `native`, and their
ratio; a thousand settings over the first trace on all cores; how long a start takes, first ever and later.
Rates are the best of several runs, since other work on the machine only ever slows a run down. Budgets: 5
million operations a second a core and 4 times `native`; 1,000 settings over `gan` in 10 s on 2 cores; starts
in 20 s and 1 s.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autotune.allocator import ReplayResult, replay, replay_many
from autotune.allocator.conditions import Conditions
from autotune.allocator.engines import open_engine
from autotune.allocator.parallel import usable_cores
from autotune.errors import AutotuneError
from autotune.settings import AllocatorSettings
from autotune.trace import Trace, load

DATA = Path(__file__).parents[1] / "tests" / "data"
TRACES = (DATA / "gan.npz", DATA / "gnn.npz")
SETTINGS = (
    "",
    "expandable_segments:True",
    "max_split_size_mb:128",
    "roundup_power2_divisions:8",
    "max_split_size_mb:64,garbage_collection_threshold:0.8,per_process_memory_fraction:0.5",
)
REPEATS = 5
TORCH = (2, 14)

START = """
import time
start = time.perf_counter()
import numpy as np
from autotune.allocator import replay
from autotune.settings import AllocatorSettings
from autotune.trace import Trace
zero = np.zeros(1, np.int64)
trace = Trace(is_alloc=zero == 0, block=zero, size=zero + 1, stream=zero, pool=zero, time_us=zero)
replay(trace, AllocatorSettings())
print(time.perf_counter() - start)
"""


def main() -> None:
    """Measure, then print a table, or JSON with --json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="*", type=Path, default=TRACES)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    report = measure(arguments.traces)
    print(json.dumps(report, indent=2) if arguments.json else table(report))


def measure(paths: Sequence[Path] = TRACES) -> dict[str, Any]:
    """All four figures; the thousand settings are over the first of the traces."""
    traces = {path.stem: load(path) for path in paths}
    return {
        "model": {name: rates(trace) for name, trace in traces.items()},
        "native": native_rates(traces),
        "thousand": {"trace": paths[0].stem, **thousand_settings(next(iter(traces.values())))},
        "start_seconds": start_seconds(),
    }


def rates(trace: Trace) -> dict[str, float]:
    """Operations per second on one core under each of SETTINGS."""
    found = {}
    for text in SETTINGS:
        settings = AllocatorSettings.parse(text)
        found[text] = best_rate([replay(trace, settings, torch_version=TORCH) for _ in range(REPEATS)])
    return found


def best_rate(results: list[ReplayResult]) -> float:
    """Operations per second of the fastest."""
    return max(result.operations / result.seconds for result in results)


def native_rates(traces: dict[str, Trace]) -> dict[str, float] | str:
    """Operations per second of PyTorch's own allocator under the defaults, or why there are none."""
    try:
        with open_engine("native") as native:
            version = native.torch_version  # type: ignore[attr-defined]
            return {
                name: best_rate(
                    [
                        Conditions.of(trace, None, None, version).replay(native, trace, AllocatorSettings())
                        for _ in range(REPEATS)
                    ]
                )
                for name, trace in traces.items()
            }
    except AutotuneError as error:
        return str(error)


def thousand_settings(trace: Trace) -> dict[str, float]:
    """Wall-clock seconds of 1,000 different settings on all cores."""
    settings = random_settings(1000)
    started = time.perf_counter()
    results = replay_many(trace, settings, torch_version=TORCH)
    seconds = time.perf_counter() - started
    operations = sum(result.operations for result in results)
    return {"seconds": seconds, "cores": usable_cores(), "operations_per_second": operations / seconds}


def random_settings(count: int) -> list[AllocatorSettings]:
    """Different settings, drawn from all that the search space varies."""
    draw, found = random.Random(0), {}
    while len(found) < count:
        expandable = draw.random() < 0.3
        split = None if expandable else draw.choice([None, draw.randrange(64, 1024)])
        settings = AllocatorSettings(
            expandable_segments=expandable,
            max_split_size_mb=split,
            max_non_split_rounding_mb=draw.randrange(64, 256) if split else None,
            roundup_power2_divisions=draw.choice(
                [1, 2, 4, 8, 16, ((256, 1), (512, 2), (None, draw.choice([4, 8])))]
            ),
            large_segment_size_mb=2 * draw.randrange(6, 32),
            garbage_collection_threshold=None if expandable else draw.randrange(50, 99) / 100,
            per_process_memory_fraction=draw.randrange(10, 99) / 100,
        )
        found[str(settings)] = settings
    return list(found.values())


def start_seconds() -> dict[str, float]:
    """Seconds from starting to import until a first replay is done, without and with a cache on disk."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        command = [sys.executable, "-c", START]
        runs = [
            subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in "12"
        ]
    return {"first": float(runs[0].stdout), "later": float(runs[1].stdout)}


def table(report: dict[str, Any]) -> str:
    """The report for people, in Markdown."""
    lines = ["| trace | settings | million operations a second | times native |", "|---|---|---:|---:|"]
    native = report["native"]
    for name, found in report["model"].items():
        for settings, rate in found.items():
            comparable = settings == "" and not isinstance(native, str)
            times = f"{rate / native[name]:.1f}" if comparable else ""
            lines.append(f"| {name} | `{settings or 'defaults'}` | {rate / 1e6:.1f} | {times} |")
    many, start = report["thousand"], report["start_seconds"]
    lines += [
        "",
        f"1,000 settings over `{many['trace']}`: {many['seconds']:.1f} s on {many['cores']:.0f} cores. "
        f"Start: {start['first']:.1f} s the first time ever, {start['later']:.2f} s later.",
    ]
    if isinstance(native, str):
        lines.append(f"Not compared with native: {native}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
