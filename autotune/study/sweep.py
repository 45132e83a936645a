"""Sweep: one option through several values, everything else held; for seeing, not for choosing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from autotune.errors import UsageError
from autotune.report.stored import Role, Row
from autotune.settings import AllocatorSettings, TorchVersion
from autotune.trial.runner import Runner

VALUES: Mapping[str, tuple[str, ...]] = {
    "expandable_segments": ("False", "True"),
    "max_split_size_mb": ("32", "64", "128", "256", "512", "1024"),
    "max_non_split_rounding_mb": ("20", "64", "256", "1024"),
    "garbage_collection_threshold": ("0.5", "0.6", "0.7", "0.8", "0.9"),
    "roundup_power2_divisions": ("1", "2", "4", "8", "16"),
    "large_segment_size_mb": ("12", "20", "32", "64", "128", "256"),
}
"""What each option is given where nobody names values."""


def settings_of(
    option: str, values: Sequence[str], base: AllocatorSettings, torch_version: TorchVersion, *, limited: bool
) -> list[AllocatorSettings]:
    """The base with each value of the option.

    Raises:
        UsageError: there is no such option to sweep, or it cannot act under these conditions.
        SettingsError: this torch refuses a value.
    """
    if option not in VALUES:
        raise UsageError(f"'{option}' is no option to sweep; it is one of {', '.join(VALUES)}.")
    if getattr(base, option) is not None:
        raise UsageError(f"--base sets {option} already; leave it out there.")
    if option == "garbage_collection_threshold" and not limited:
        raise UsageError(f"{option} acts only under a memory limit; give one with --memory-limit.")
    if option == "max_non_split_rounding_mb" and base.max_split_size_mb is None:
        raise UsageError(f"{option} acts only with a split size; give one with --base max_split_size_mb:256.")
    found = []
    for value in values:
        text = ",".join(filter(None, (str(base), f"{option}:{value}")))
        settings = AllocatorSettings.parse(text)
        settings.validate(torch_version)
        found.append(settings)
    return found


def sweep(
    runner: Runner,
    base: AllocatorSettings,
    settings: Sequence[AllocatorSettings],
    on_finish: Callable[[Row], None] = lambda row: None,
) -> list[Row]:
    """Measure the base, then each of the settings; nothing is stored."""
    rows = []
    for number, one in enumerate([base, *settings]):
        role = Role.GIVEN if number else Role.DEFAULT
        measurement = runner.measure(one, number=number)
        row = Row(number=number, role=role, settings=str(one), measurement=measurement)
        on_finish(row)
        rows.append(row)
    return rows
