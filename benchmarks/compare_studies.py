"""Two studies of one script on one GPU side by side: what each found, in how much GPU time.

    python -m benchmarks.compare_studies STORAGE STUDY STORAGE STUDY

Hypervolume is the area, in peak reserved and step time relative to the defaults (the median of their runs in
both studies), that a study's trials dominate up to a reference point of (2, 2): twice the defaults' memory
and time. The defaults alone dominate 1.0; more is better. Step times are noisy, and the more trials, the
luckier their fastest; so there is a second line, in which step times that differ from the defaults' by no
more than equal runs of the defaults did from each other count as equal to them.

GPU time is that of the trials; a search has one run more, which it records.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Iterable, Sequence

from autotune.measurement import Obtained
from autotune.metrics import PEAK_RESERVED
from autotune.report.objectives import Point, point
from autotune.report.stored import Role, Row, confirmation, searched
from autotune.report.summary import Summary, summarise
from autotune.study.book import load_study
from autotune.study.stopping import time_noise
from autotune.study.storage import open_storage
from autotune.units import format_bytes, format_seconds

REFERENCE = 2.0


def main() -> None:
    """Print a Markdown table of two columns."""
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    found = measured_studies(sys.argv[1:])
    defaults = [row for summary in found for row in summary.rows if row.role is Role.DEFAULT and point(row)]
    if not defaults or not all(summary.recommended for summary in found):
        sys.exit("One of the studies has nothing that completed.")
    columns = [
        column(summary, defaults, other) for summary, other in zip(found, reversed(found), strict=True)
    ]
    print("| | " + " | ".join(summary.study for summary in found) + " |")
    print("|---|" + "---:|" * len(found))
    for name in columns[0]:
        print(f"| {name} | " + " | ".join(values[name] for values in columns) + " |")


def measured_studies(named: Sequence[str]) -> list[Summary]:
    """The studies of STORAGE STUDY STORAGE STUDY; ends the program if one has no step times."""
    pairs = zip(named[::2], named[1::2], strict=True)
    found = [summarise(load_study(open_storage(url, read_only=True), name)) for url, name in pairs]
    for summary in found:
        if summary.conditions.obtained is not Obtained.MEASURED:
            sys.exit(f"Study '{summary.study}' is {summary.conditions.obtained}; it has no step times.")
    return found


def column(summary: Summary, defaults: Sequence[Row], other: Summary) -> dict[str, str]:
    """What there is to say of one study, measured by the defaults' runs and beside the other study."""
    reference, noise = median_point(points(defaults)), time_noise(defaults) or 0.0
    chosen = summary.recommended and point(summary.recommended)
    assert chosen
    trials, confirming = searched(summary.rows), confirmation(summary.rows)
    return {
        "trials": str(len(trials)),
        "GPU time of the trials and of repeated defaults": format_seconds(
            gpu_seconds(row for row in summary.rows if row not in confirming)
        ),
        "GPU time of the confirmation": format_seconds(gpu_seconds(confirming)),
        "smallest peak reserved": PEAK_RESERVED.format(min(found[0] for found in points(trials))),
        "found in trial": str(min(trials, key=memory_of).number),
        "GPU time until the smallest peak of the other": until(
            summary.rows, min(map(memory_of, searched(other.rows)))
        ),
        "recommended: peak reserved": format_bytes(chosen[0]),
        "recommended: step time": format_seconds(chosen[2]),
        "hypervolume": f"{hypervolume(points(trials), reference):.3f}",
        f"hypervolume, times within {noise:.1%} taken as equal": (
            f"{hypervolume(levelled(points(trials), reference[2], noise), reference):.3f}"
        ),
    }


def median_point(found: Sequence[Point]) -> Point:
    """The median of each objective."""
    memory, fragmentation, seconds = (statistics.median(column) for column in zip(*found, strict=True))
    return memory, fragmentation, seconds


def memory_of(row: Row) -> float:
    """Peak reserved in bytes; infinite for a trial that did not complete."""
    found = point(row)
    return found[0] if found else math.inf


def levelled(found: Iterable[Point], seconds: float, noise: float) -> list[Point]:
    """The points, step times that the noise does not tell from `seconds` replaced by it."""
    return [
        (memory, share, seconds if abs(time - seconds) <= noise * seconds else time)
        for memory, share, time in found
    ]


def gpu_seconds(rows: Iterable[Row]) -> float:
    """Time for which the trials held the GPU: start-up and script."""
    return sum((row.measurement.startup_seconds or 0) + (row.measurement.script_seconds or 0) for row in rows)


def until(rows: Sequence[Row], memory: float) -> str:
    """GPU time of all rows up to the first that reserves no more than this; a row of confirmation is none."""
    tried = set(map(id, searched(rows)))
    for number, row in enumerate(rows, start=1):
        if id(row) in tried and memory_of(row) <= memory:
            return format_seconds(gpu_seconds(rows[:number]))
    return "not reached"


def points(rows: Iterable[Row]) -> list[Point]:
    """The objectives of all rows that completed."""
    return [found for row in rows if (found := point(row)) is not None]


def hypervolume(found: Iterable[Point], defaults: Point) -> float:
    """Area dominated by the points in (peak reserved, step time), both as multiples of the defaults."""
    scaled = sorted((memory / defaults[0], seconds / defaults[2]) for memory, _, seconds in found)
    area, ceiling = 0.0, REFERENCE
    for memory, seconds in scaled:
        if memory < REFERENCE and seconds < ceiling:
            area += (REFERENCE - memory) * (ceiling - seconds)
            ceiling = seconds
    return area


if __name__ == "__main__":
    main()
