"""The speed of the allocator room, as Markdown.

    python -m benchmarks [--write FILE]

`--write` puts the result between the two marks of FILE, `<!-- bench -->` and `<!-- /bench -->`.
"""

from __future__ import annotations

import argparse
import platform
import sys
from datetime import date
from pathlib import Path

from autotune.allocator.parallel import usable_cores
from autotune.units import format_bytes
from benchmarks import bench_model, bench_snapshot

BEGIN, END = "<!-- bench -->", "<!-- /bench -->"


def main() -> int:
    """Measure, print, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="FILE", help="file with the two marks")
    target = parser.parse_args().write
    if target is not None and not (target.is_file() and BEGIN in target.read_text()):
        parser.error(f"{target} has no line {BEGIN}; the result goes between it and {END}.")
    print("Measuring the model, PyTorch's own allocator, and a large snapshot …", file=sys.stderr)
    text = "\n".join([bench_model.table(bench_model.measure()), "", snapshot_line(), "", where()])
    print(text)
    if target is not None:
        before, _, rest = target.read_text().partition(BEGIN)
        target.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")
    return 0


def snapshot_line() -> str:
    """How long a large snapshot takes to read."""
    found = bench_snapshot.measure()
    return (
        f"A snapshot of 500,000 events with their stacks ({format_bytes(found['file_bytes'])}) is read in "
        f"{found['seconds']:.1f} s, with {format_bytes(found['peak_resident_bytes'])} of memory."
    )


def where() -> str:
    """Date and machine, as far as it names itself."""
    return f"Measured {date.today()} on {usable_cores()} {platform.machine()} cores, {platform.system()}."


if __name__ == "__main__":
    sys.exit(main())
