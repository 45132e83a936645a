"""How close estimates from the phantom GPU come: estimated against measured peak reserved memory.

    python -m benchmarks.bench_phantom [--workloads FOLDER [--peaks FILE] [--traces FOLDER]] [--json]

Records the three objectives and the Llama of this folder on a phantom H200, replays each under four settings
by the rules of the torch that the GPU ran, and compares with `data/h200_peaks.json`, which a real H200
measured. With --workloads every script of a folder is recorded too; its measured peaks come from a file of
the same form (--peaks), or from replaying what the GPU recorded of it (--traces, FOLDER/NAME.npz), which is
marked with an r. A script that needs a package which is not installed, or that the phantom GPU cannot run,
is named with the reason.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from autotune import trace
from autotune.allocator import replay
from autotune.allocator.devices import card
from autotune.measurement import Outcome
from autotune.settings import AllocatorSettings, TorchVersion, parse_torch_version
from autotune.trial.preflight import preflight
from autotune.trial.recording import record
from autotune.trial.runner import Job
from autotune.units import MIB

HERE = Path(__file__).parent
PEAKS = HERE / "data" / "h200_peaks.json"
SETTINGS = ("", "expandable_segments:True", "max_split_size_mb:128", "roundup_power2_divisions:8")
SELECTED = {"moe": 0.125}
"""Share that a mask of such a script selects: one of eight experts."""
EVERY_STEP = 100_000


@dataclass(frozen=True)
class Row:
    """One script under one setting."""

    workload: str
    settings: str
    estimated_bytes: int
    measured_bytes: int
    replayed: bool
    """Whether the measured number is a replay of a trace that the GPU recorded."""

    @property
    def error(self) -> float:
        """Relative error of the estimate."""
        return self.estimated_bytes / self.measured_bytes - 1


def main() -> None:
    """Record, replay, compare, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workloads", type=Path)
    parser.add_argument("--peaks", type=Path)
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    scripts = [*sorted((HERE.parent / "objectives").glob("*.py")), HERE / "llama_7b.py"]
    scripts += sorted(options.workloads.glob("*.py")) if options.workloads else []
    measured = json.loads(PEAKS.read_text())
    release = parse_torch_version(measured["torch"])
    rows: list[Row] = []
    for script in scripts:
        named = "objective " if script.parent.name == "objectives" else ""
        foreign = options.workloads is not None and script.parent == options.workloads
        peaks = json.loads(options.peaks.read_text()) if foreign and options.peaks else measured
        rows += estimate(script, named, peaks["rows"], options.traces if foreign else None, release)
    if options.json:
        print(json.dumps([{**vars(row), "error": row.error} for row in rows], indent=2))
    else:
        print_table(rows)


def estimate(
    script: Path, named: str, peaks: list[dict], traces: Path | None, release: TorchVersion
) -> list[Row]:
    """Record one script, and replay it under every setting that the GPU ran it under."""
    with tempfile.TemporaryDirectory() as folder:
        job = Job(
            script=script.absolute(), warmup_steps=0, measured_steps=EVERY_STEP, timeout_seconds=1800,
            directory=Path(folder), seed=None,
        )  # fmt: skip
        file = Path(folder) / "trace.npz"
        began = time.perf_counter()
        found = record(
            job, preflight(job), file, card=card("H200"), selected=SELECTED.get(script.stem), say=say
        )
        seconds = time.perf_counter() - began
        if found.outcome is not Outcome.COMPLETED:
            say(f"{script.stem}: {found.reason}")
            return []
        recorded = trace.load(file)
    steps = len(recorded.step_ends)
    say(f"{script.stem}: {recorded.num_operations:,} operations, {steps} steps, in {seconds:.0f} s")
    if not recorded.recording.notes[0].startswith("Recorded on a phantom"):
        say(f"{script.stem}: left out, since the phantom GPU did not do it: {recorded.recording.notes[-1]}")
        return []
    rows = []
    for settings in SETTINGS:
        truth, replayed = truth_of(script.stem, settings, peaks, traces, release)
        if truth:
            mine = peak(recorded, settings, release)
            rows.append(Row(f"{named}{script.stem}", settings, mine, truth, replayed))
    return rows


def truth_of(
    name: str, settings: str, peaks: list[dict], traces: Path | None, release: TorchVersion
) -> tuple[int | None, bool]:
    """Peak reserved on the GPU, and whether a replay had to tell it."""
    for row in peaks:
        same = row["workload"] == name and row["settings"] == settings
        if same and not row.get("memory_fraction") and row["outcome"] == "completed":
            return row["peak_reserved_bytes"], False
    file = traces / f"{name}.npz" if traces else None
    if file is None or not file.is_file():
        return None, False
    return peak(trace.load(file), settings, release), True


def peak(recorded: trace.Trace, settings: str, release: TorchVersion) -> int:
    """Peak reserved bytes on an H200."""
    parsed = AllocatorSettings.parse(settings)
    total = card("H200").total_bytes
    return replay(recorded, parsed, torch_version=release, device_total=total).peak_reserved_bytes


def print_table(rows: list[Row]) -> None:
    """A table in Markdown, and its summary."""
    print("| script | settings | estimated MiB | H200 MiB | error |\n|---|---|---:|---:|---:|")
    for row in rows:
        mark = " r" if row.replayed else ""
        sizes = f"{row.estimated_bytes / MIB:,.0f} | {row.measured_bytes / MIB:,.0f}{mark}"
        print(f"| {row.workload} | {row.settings or 'defaults'} | {sizes} | {row.error:+.1%} |")
    errors = [abs(row.error) for row in rows]
    if errors:
        worst = max(rows, key=lambda row: abs(row.error))
        print(
            f"\nMedian error {statistics.median(errors):.1%}, worst {worst.error:+.1%} "
            f"({worst.workload}, {worst.settings or 'defaults'}), {len(rows)} comparisons."
        )


def say(sentence: str) -> None:
    """Progress, on stderr."""
    print(sentence, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
