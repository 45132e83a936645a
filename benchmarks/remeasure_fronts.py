"""Two studies' fronts measured again, in turn and in fresh processes: how much of each was luck.

    python -m benchmarks.remeasure_fronts STORAGE STUDY STORAGE STUDY [--rounds N]

Of many trials the fastest is the luckiest too. So every trial on either study's front (peak reserved and step
time), and the defaults, run N times more under the conditions of the first study, one round after another.
The table gives the medians; the hypervolumes below are those of `compare_studies`, from the trials as they
were found and from these medians. Both are relative to the defaults' median, here and there.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence

from autotune.report.objectives import Point, point
from autotune.report.stored import Role, Row, searched
from autotune.report.summary import Summary
from autotune.settings import AllocatorSettings
from autotune.study.verify import runner_of
from autotune.trial.runner import Runner
from autotune.trial.worker_runner import print_progress
from autotune.units import format_bytes, format_seconds
from benchmarks.compare_studies import hypervolume, measured_studies, median_point, points

Runs = dict[str, list[Point]]


def main() -> None:
    """Measure, and print a Markdown table and the hypervolumes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("studies", nargs=4, metavar="STORAGE STUDY")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each (default 3)")
    arguments = parser.parse_args()
    found = measured_studies(arguments.studies)
    fronts = [front(summary) for summary in found]
    settings = dict.fromkeys(["", *(row.settings for rows in fronts for row in rows)])
    runner = runner_of(
        found[0].study, found[0].conditions, python="", timeout=600, device=0, say=print_progress
    )
    with contextlib.closing(runner):
        runs = measured(runner, list(settings), arguments.rounds)
    if not runs[""]:
        raise SystemExit("The defaults did not complete, so there is nothing to compare with.")
    print("| study | trial | settings | as found | again, median | step times again |")
    print("|---|---:|---|---:|---:|---:|")
    for summary, rows in zip(found, fronts, strict=True):
        for row in rows:
            print(line(summary.study, row, runs[row.settings]))
    defaults = median_point(runs[""])
    print(f"\nThe defaults again: {words(defaults)} in the median.")
    for summary, rows in zip(found, fronts, strict=True):
        then = hypervolume(points(rows), median_point(points(default_rows(summary))))
        again = [median_point(runs[row.settings]) for row in rows if runs[row.settings]]
        print(
            f"Hypervolume of {summary.study}: {then:.3f} as found, {hypervolume(again, defaults):.3f} again."
        )


def front(summary: Summary) -> list[Row]:
    """Trials that no other one of the study beats in peak reserved and in step time, by memory."""
    best, kept = float("inf"), []
    rows = [(found, row) for row in searched(summary.rows) if (found := point(row))]
    for (_, _, seconds), row in sorted(rows, key=lambda pair: (pair[0][0], pair[0][2])):
        if seconds < best:
            best = seconds
            kept.append(row)
    return kept


def default_rows(summary: Summary) -> list[Row]:
    """The defaults' runs during the search."""
    return [row for row in summary.rows if row.role is Role.DEFAULT and point(row)]


def measured(runner: Runner, settings: Sequence[str], rounds: int) -> Runs:
    """Objectives of every completed run; the order turns with each round, so that none is always first."""
    runs: Runs = {one: [] for one in settings}
    total = rounds * len(settings)
    for number in range(total):
        round_, place = divmod(number, len(settings))
        one = settings[(place + round_) % len(settings)]
        taken = runner.measure(AllocatorSettings.parse(one), number=number)
        row = Row(number=number, role=Role.CONFIRM, settings=one, measurement=taken)
        if found := point(row):
            runs[one].append(found)
        print_progress(f"{number + 1}/{total}  {words(found) if found else taken.outcome.words}  {one}")
    return runs


def line(study: str, row: Row, runs: Sequence[Point]) -> str:
    """One line of the table."""
    again = words(median_point(runs)) if runs else "did not run"
    times = " to ".join(format_seconds(end(one[2] for one in runs)) for end in (min, max)) if runs else ""
    settings = f"`{row.settings}`" if row.settings else "(PyTorch's defaults)"
    found = point(row)
    return f"| {study} | {row.number} | {settings} | {words(found) if found else ''} | {again} | {times} |"


def words(found: Point) -> str:
    """Memory and time."""
    return f"{format_bytes(found[0])}, {format_seconds(found[2])}"


if __name__ == "__main__":
    main()
