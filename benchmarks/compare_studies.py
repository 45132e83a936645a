"""Two studies of one script on one GPU side by side: what each found, in how much GPU time.

    python -m benchmarks.compare_studies STORAGE STUDY STORAGE STUDY

Hypervolume is the area, in peak reserved and step time relative to the defaults of the first study, that a
study's trials dominate up to a reference point of (2, 2): twice the defaults' memory and time. The
defaults alone dominate 1.0; more is better. Step times are noisy, and the more trials, the luckier their
fastest: the memory column is the one to trust.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from autotune.metrics import PEAK_RESERVED
from autotune.report.pick import point
from autotune.report.stored import Row
from autotune.report.summary import Summary, summarise
from autotune.study.book import load_study
from autotune.study.storage import open_storage
from autotune.units import format_bytes, format_seconds

REFERENCE = 2.0


def main() -> None:
    """Print a Markdown table of two columns."""
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    pairs = zip(sys.argv[1::2], sys.argv[2::2], strict=True)
    found = [summarise(load_study(open_storage(url, read_only=True), name)) for url, name in pairs]
    columns = [column(summary, found[0]) for summary in found]
    print("| | " + " | ".join(summary.study for summary in found) + " |")
    print("|---|" + "---:|" * len(found))
    for name in columns[0]:
        print(f"| {name} | " + " | ".join(values[name] for values in columns) + " |")


def column(summary: Summary, first: Summary) -> dict[str, str]:
    """What there is to say of one study, measured by the defaults of the first."""
    defaults = first.baseline and point(first.baseline)
    chosen = summary.recommended and point(summary.recommended)
    if not defaults or not chosen:
        sys.exit(f"Study '{summary.study}' or '{first.study}' has nothing that completed.")
    return {
        "trials": str(len(summary.rows)),
        "GPU time": format_seconds(gpu_seconds(summary.rows)),
        "smallest peak reserved": PEAK_RESERVED.format(min(found[0] for found in points(summary.rows))),
        "recommended: peak reserved": format_bytes(chosen[0]),
        "recommended: step time": format_seconds(chosen[2]),
        "hypervolume": f"{hypervolume(summary.rows, defaults):.3f}",
    }


def gpu_seconds(rows: Iterable[Row]) -> float:
    """Time for which the trials held the GPU: start-up and script."""
    return sum((row.measurement.startup_seconds or 0) + (row.measurement.script_seconds or 0) for row in rows)


def points(rows: Iterable[Row]) -> list[tuple[float, float, float]]:
    """The objectives of all rows that completed."""
    return [found for row in rows if (found := point(row)) is not None]


def hypervolume(rows: Iterable[Row], defaults: tuple[float, float, float]) -> float:
    """Area dominated by the rows in (peak reserved, step time), both as multiples of the defaults."""
    scaled = sorted((memory / defaults[0], seconds / defaults[2]) for memory, _, seconds in points(rows))
    area, ceiling = 0.0, REFERENCE
    for memory, seconds in scaled:
        if memory < REFERENCE and seconds < ceiling:
            area += (REFERENCE - memory) * (ceiling - seconds)
            ceiling = seconds
    return area


if __name__ == "__main__":
    main()
