"""Summary: a study as data. Renderers (terminal, HTML, dashboard, files) read this and nothing else."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from autotune.errors import UsageError
from autotune.measurement import Measurement, Obtained, Outcome
from autotune.metrics import Metric, metric_values, objectives
from autotune.report.confirmed import confirmations, confirmed_choice
from autotune.report.doubts import retried_steps, rises_at_the_end
from autotune.report.matters import Matters
from autotune.report.noise import median_interval, percentile_95
from autotune.report.objectives import point
from autotune.report.pace import noise_of_runs, pace_of
from autotune.report.pareto import front
from autotune.report.pick import Choice, balanced_choice, memory_pick, speed_pick
from autotune.report.reasons import why
from autotune.report.shortage import Shortage
from autotune.report.stored import Conditions, Role, Row, read_conditions, read_rows, read_same_as, searched
from autotune.units import format_bytes

if TYPE_CHECKING:
    from optuna import Study

PICKS = ("balanced", "memory", "speed")
"""Names that `pick` knows, beside `trial:N`."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a study has found so far."""

    study: str
    conditions: Conditions
    rows: tuple[Row, ...]
    """Every finished trial, by number."""
    baseline: Row | None
    """The defaults' row: the first one that completed, else the last one; None before the first trial."""
    recommended: Row | None
    """The balanced pick, or what a confirmation shows to be better; None while nothing has completed."""
    choice: Choice | None
    """Of the recommended row: by which rule, and compared with what."""
    front: tuple[Row, ...]
    """Completed rows that no other row dominates, equal ones included."""
    same_as: Mapping[str, int] = field(default_factory=dict)
    """Settings that were not run, because a replay of them is that of a trial → its number."""

    @property
    def metrics(self) -> tuple[Metric, Metric, Metric]:
        """The three objectives of this study."""
        return objectives(self.conditions.obtained)

    @property
    def failed(self) -> tuple[Row, ...]:
        """Rows that did not complete, out of memory included."""
        return tuple(row for row in self.rows if not row.completed)

    @property
    def nothing_fits(self) -> bool:
        """Whether trials ran out of memory and none completed."""
        outcomes = {row.measurement.outcome for row in self.rows}
        return Outcome.OUT_OF_MEMORY in outcomes and Outcome.COMPLETED not in outcomes

    @property
    def memory(self) -> str:
        """What there is to fit into, for people."""
        limit = self.conditions.memory_limit_bytes
        return "the GPU" if limit is None else f"the limit of {format_bytes(limit)}"

    @property
    def startup_seconds(self) -> float | None:
        """Median time from launching a worker to the script's first line; None where nothing was launched."""
        found = [
            row.measurement.startup_seconds
            for row in self.rows
            if row.measurement.obtained is Obtained.MEASURED and row.measurement.startup_seconds is not None
        ]
        return statistics.median(found) if found else None

    def first(self, role: Role) -> Row | None:
        """The first completed row with this role, else the first row with it."""
        rows = [row for row in self.rows if row.role is role]
        return next((row for row in rows if row.completed), rows[0] if rows else None)

    def pick(self, name: str) -> Row:
        """The row called `balanced`, `memory`, `speed` or `trial:N`.

        Raises:
            UsageError: there is no such row, or it did not complete.
        """
        if name in PICKS:
            chosen = {
                "balanced": self.recommended,
                "memory": memory_pick(searched(self.rows)),
                "speed": speed_pick(searched(self.rows)),
            }[name]
            if chosen is None and self.nothing_fits:
                raise UsageError(
                    f"Nothing that study '{self.study}' tried fits into {self.memory}, so there is nothing "
                    "to export; its report says how much memory would do."
                )
            if chosen is None:
                raise UsageError(
                    f"Study '{self.study}' has no completed trial to pick; run it again to add some."
                )
            return chosen
        return self._trial(name)

    def _trial(self, name: str) -> Row:
        match = re.fullmatch(r"trial:(\d{1,9})", name)
        if match is None:
            raise UsageError(f"'{name}' is no pick; it is one of {', '.join(PICKS)} or trial:N.")
        number = int(match.group(1))
        row = next((row for row in self.rows if row.number == number), None)
        if row is None:
            raise UsageError(
                f"Study '{self.study}' has no trial {number}; it has {len(self.rows)} finished trials."
            )
        if not row.completed:
            raise UsageError(
                f"Trial {number} of study '{self.study}' did not complete "
                f"({row.measurement.outcome.words}); pick another."
            )
        return row


def summarise(study: Study) -> Summary:
    """Read a study and compute what a report says.

    Raises:
        StudyError: the study is not one of autotune's.
    """
    found = summarise_rows(study.study_name, read_conditions(study), read_rows(study))
    return replace(found, same_as=read_same_as(study))


def summarise_rows(name: str, conditions: Conditions, rows: Sequence[Row]) -> Summary:
    """The summary of rows that were read already."""
    tried = searched(rows)
    defaults = [row for row in tried if row.role is Role.DEFAULT]
    baseline = defaults[-1] if defaults else None
    limited = conditions.memory_limit_bytes is not None
    pace = pace_of(conditions, noise_of_runs(rows))
    choice = balanced_choice(tried, baseline, pace=pace, limited=limited)
    choice = confirmed_choice(rows, choice, baseline, pace=pace, limited=limited)
    points = {row.number: found for row in tried if (found := point(row)) is not None}
    members = set(front(points))
    return Summary(
        study=name,
        conditions=conditions,
        rows=tuple(rows),
        baseline=baseline,
        recommended=choice.row if choice else None,
        choice=choice,
        front=tuple(row for row in tried if row.number in members),
    )


def document(summary: Summary, matters: Matters | Shortage | None = None) -> dict[str, Any]:
    """What `report --json` and `run --json` print."""
    members = {row.number for row in summary.front}
    return {
        "study": summary.study,
        "script": summary.conditions.script,
        "obtained": str(summary.conditions.obtained),
        "environment": asdict(summary.conditions.environment),
        "memory_limit_bytes": summary.conditions.memory_limit_bytes,
        "notes": list(summary.conditions.notes),
        "baseline": summary.baseline.number if summary.baseline else None,
        "recommended": summary.recommended.number if summary.recommended else None,
        "why": why(summary.choice) if summary.choice else None,
        "front": [row.number for row in summary.front],
        "trials": [
            {
                "number": row.number,
                "role": str(row.role),
                "settings": row.settings,
                "outcome": str(row.measurement.outcome),
                "obtained": str(row.measurement.obtained),
                "metrics": metric_values(row.measurement) if row.completed else {},
                "num_alloc_retries": row.measurement.num_alloc_retries,
                "steps_with_retries": _steps_with_retries(row.measurement),
                "on_front": row.number in members,
                "steps": _steps(row.measurement),
            }
            for row in summary.rows
        ],
        "confirmed": [found.to_json() for found in confirmations(summary.rows)],
        "matters": matters.to_json() if isinstance(matters, Matters) else None,
        "shortage": matters.to_json() if isinstance(matters, Shortage) else None,
    }


def _steps_with_retries(measurement: Measurement) -> int | None:
    """How many measured steps contain allocation retries; None where steps were not measured."""
    return retried_steps(measurement) if measurement.step_alloc_retries else None


def _steps(measurement: Measurement) -> dict[str, Any] | None:
    """What the measured steps were like, beside their median; None where none were timed."""
    times = measurement.step_seconds
    if not times:
        return None
    return {
        "measured": len(times),
        "median_interval_seconds": median_interval(times),
        "p95_seconds": percentile_95(times),
        "with_retries": retried_steps(measurement),
        "peak_rises_at_the_end": rises_at_the_end(measurement),
    }
