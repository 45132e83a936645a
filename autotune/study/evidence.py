"""The trace behind a study, for reports that replay: its own, or the recording that it was screened with."""

from __future__ import annotations

from pathlib import Path

import optuna
from optuna.samplers import RandomSampler

from autotune import trace as traces
from autotune.allocator.conditions import Conditions as ReplayConditions
from autotune.errors import UsageError
from autotune.report.matters import Matters, what_matters
from autotune.report.shortage import Shortage, shortage
from autotune.report.stored import SCREEN_OF, Conditions, Role, read_conditions
from autotune.report.summary import Summary
from autotune.settings import AllocatorSettings, parse_torch_version
from autotune.study.prepare import digest
from autotune.study.screened import screen_name
from autotune.trace import Trace

FIRST = (Role.DEFAULT, Role.EXPANDABLE, Role.ENVIRONMENT, Role.GIVEN, Role.SCREENED, Role.SAMPLED)
"""Roles in the order in which their smallest memory is worth knowing."""
MOST_OPERATIONS = 5_000_000
"""Longer traces take a report more than a few seconds."""


def matters_of(study: optuna.Study, summary: Summary) -> Matters | Shortage | None:
    """What matters in this study, or what is missing where nothing fits; None where no trace is at hand."""
    row = summary.recommended
    if row is None and not summary.nothing_fits:
        return None
    found = _conditions_with_trace(study, summary.conditions)
    trace = _trace(found) if found is not None else None
    if found is None or trace is None or trace.num_operations > MOST_OPERATIONS:
        return None
    environment = summary.conditions.environment
    conditions = ReplayConditions.of(
        trace,
        summary.conditions.memory_limit_bytes,
        environment.device_total_bytes,
        parse_torch_version(environment.torch) if environment.torch else None,
    )
    if row is None:
        return shortage(trace, _most_telling_first(summary), conditions)
    return what_matters(trace, AllocatorSettings.parse(row.settings), conditions)


def _most_telling_first(summary: Summary) -> list[str]:
    """The defaults and expandable segments, then what promised most, then what forums recommend."""
    order = list(FIRST)
    rows = sorted(summary.rows, key=lambda row: order.index(row.role) if row.role in order else len(order))
    return [row.settings for row in rows]


def _conditions_with_trace(study: optuna.Study, conditions: Conditions) -> Conditions | None:
    if conditions.trace is not None:
        return conditions
    name = screen_name(study.study_name)
    try:
        screen = optuna.load_study(study_name=name, storage=study._storage, sampler=RandomSampler())
    except KeyError:
        return None
    return read_conditions(screen) if SCREEN_OF in screen.user_attrs else None


def _trace(conditions: Conditions) -> Trace | None:
    """The trace, if its file still is the one that the study was made with."""
    path = Path(conditions.trace or "")
    if not path.is_file():
        return None
    try:
        trace = traces.load(path, partial=True)  # the digest tells whether it is the same
    except UsageError:
        return None
    return trace if digest(trace) == conditions.trace_sha256 else None
