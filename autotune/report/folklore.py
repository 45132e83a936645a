"""How the strings that people recommend to each other fared on this workload."""

from __future__ import annotations

from autotune.report.stored import Role
from autotune.report.summary import Summary
from autotune.report.wording import cells, outcome, plain, time_phrase


def folklore(summary: Summary) -> list[str]:
    """One sentence for each string: measured, or like which trial it behaves; the frequent ones first."""
    lines = []
    for row in summary.rows:
        if row.role is not Role.FOLKLORE:
            continue
        shown = cells(summary, row)
        found = outcome(row)
        if row.completed and shown.memory_change:
            found = f"peak reserved {shown.memory} ({shown.memory_change}), {time_phrase(summary, row)}"
        elif row.completed:
            found = f"peak reserved {shown.memory}"
        lines.append(f"{plain(row.settings)}: {found}; trial {row.number}.")
    for settings, number in summary.same_as.items():
        lines.append(
            f"{plain(settings)}: behaves like trial {number} in every call to the driver, so it was not run."
        )
    return lines
