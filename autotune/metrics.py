"""The numbers a study optimises and a report shows: name, unit, direction, function of a Measurement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from autotune.measurement import Measurement, Obtained
from autotune.units import GIB, format_bytes, format_percent, format_seconds


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One row of the table. Every direction is `minimize`; the field says so for Optuna."""

    name: str
    """Key in `--json` output and in code; ends in its unit where it has one."""
    title: str
    """Name with unit, for Optuna and optuna-dashboard, which show values without units."""
    scale: float
    """Multiply a value by this to get the unit of `title`."""
    value: Callable[[Measurement], float | None]
    format: Callable[[float], str]
    direction: Literal["minimize"] = "minimize"


PEAK_RESERVED = Metric(
    name="peak_reserved_bytes", title="peak reserved (GiB)", scale=1 / GIB,
    value=lambda m: m.peak_reserved_bytes, format=format_bytes,
)  # fmt: skip
FRAGMENTATION = Metric(
    name="fragmentation", title="fragmentation (%)", scale=100.0,
    value=lambda m: m.fragmentation, format=format_percent,
)  # fmt: skip
STEP_TIME = Metric(
    name="step_seconds", title="step time (ms)", scale=1e3,
    value=lambda m: m.median_step_seconds, format=format_seconds,
)  # fmt: skip
ALLOCATOR_TIME = Metric(
    name="allocator_seconds", title="time in driver calls after warm-up (ms)", scale=1e3,
    value=lambda m: m.allocator_seconds, format=format_seconds,
)  # fmt: skip
SMALLEST_FIT = Metric(
    name="smallest_fit_bytes", title="smallest memory it fits in (GiB)", scale=1 / GIB,
    value=lambda m: m.smallest_fit_bytes, format=format_bytes,
)  # fmt: skip
SCREEN_OBJECTIVES = (PEAK_RESERVED, SMALLEST_FIT, ALLOCATOR_TIME)
"""What a screening compares: on a roomy GPU and in the least memory settings rank differently."""


def objectives(obtained: Obtained) -> tuple[Metric, Metric, Metric]:
    """The three objectives: the third is step time where it is measured, driver time where it is not."""
    speed = STEP_TIME if obtained is Obtained.MEASURED else ALLOCATOR_TIME
    return PEAK_RESERVED, FRAGMENTATION, speed


def metric_values(measurement: Measurement) -> dict[str, float]:
    """The measurement's objectives by name; those it does not have are left out."""
    found = {metric.name: metric.value(measurement) for metric in objectives(measurement.obtained)}
    return {name: value for name, value in found.items() if value is not None}
