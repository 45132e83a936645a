"""What the confirmation found: finalists against the defaults, in rounds of fresh processes."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from autotune.measurement import Measurement
from autotune.report.noise import Change, change, percentile_95
from autotune.report.pace import LONGER_TAIL_TOLERATED, SLOWER_TOLERATED
from autotune.report.pick import Choice, Rule
from autotune.report.stored import Row, confirmation, searched
from autotune.settings import simplicity
from autotune.units import format_bytes, format_change

LEAST_ROUNDS = 3
"""Fewer say too little to overthrow a recommendation."""
MARGIN = 0.01
"""Peak reserved, as a share of the defaults', that makes no difference."""


@dataclass(frozen=True, kw_only=True)
class Confirmed:
    """One finalist's runs against the defaults' runs of the same rounds."""

    settings: str
    rounds: int
    """Rounds in which both were run."""
    failures: int
    """Runs of this finalist that did not complete."""
    reference_failures: int
    """Runs of the defaults that did not complete."""
    reference_bytes: tuple[int, ...]
    """Peak reserved of each run of the defaults in a round that completed."""
    peak_reserved_bytes: tuple[int, ...]
    """Peak reserved of each run of this finalist that completed; of rounds where the defaults did, too."""
    memory: Change | None
    """None where either side failed, or there was but one round."""
    seconds: Change | None
    """Of the median step; None also where steps were not timed."""
    tail: Change | None = None
    """Of the step time that 95 % of the steps do not exceed; None also with fewer than twenty steps."""

    def to_json(self) -> dict[str, Any]:
        """The fields, for `--json`."""
        return asdict(self)


def confirmed_choice(
    rows: Sequence[Row], choice: Choice | None, baseline: Row | None, *, limited: bool = False
) -> Choice | None:
    """The recommendation after a confirmation: of the finalists, the one that it shows to be best.

    A search picks what looked best in one run of a certain length, so part of its gain is luck, or holds for
    that length only. Once the chosen row has run in three rounds or more, those runs decide: among the
    finalists that never failed, that save memory beyond noise and are not slower (`_slower`), the smallest
    peak reserved; within 1 % of the defaults' the simplest settings, which gain as much and are easier to
    trust. If none is left, the chosen one if it saves more than it costs (the product of both changes is
    below one), else the defaults. Where the defaults do not run, there is no such yardstick, and the chosen
    one stays as long as it never failed.

    Under a memory limit: among the finalists that never failed, the defaults included, and are not slower
    than another of them, the smallest peak reserved, in the simplest settings within 1 %.

    Args:
        rows: the study's rows.
        choice: the search's own.
        baseline: the defaults' row.
        limited: whether there is a memory limit.
    """
    found = {one.settings: one for one in confirmations(rows) if one.rounds >= LEAST_ROUNDS}
    runs = confirming_runs(rows)
    if choice is None or len(runs.get(choice.row.settings, ())) < LEAST_ROUNDS:
        return choice
    chosen = choice.row
    if limited:
        finalists = [row for row in searched(rows) if row.completed and row.settings in {"", *found}]
        near = _fastest_that_fit(finalists, runs)
        return _decided(choice, near, Rule.CONFIRMED_FITS) if near else choice
    if chosen.settings not in found:
        return choice
    finalists = [row for row in searched(rows) if row.completed and row.settings in found]
    good = [row for row in finalists if _holds(found[row.settings])]
    if not good:
        if _worth_its_price(found[chosen.settings]):
            return _decided(choice, [chosen], Rule.CONFIRMED_PRICE)
        if baseline is not None and baseline.completed:
            return _decided(choice, [baseline], _refuted(found[chosen.settings]))
        return choice
    least = min(_memory(found[row.settings]) for row in good)
    near = [row for row in _by_memory(good, found) if _memory(found[row.settings]) <= least + MARGIN]
    if chosen in good and found[chosen.settings].memory is None:
        return _decided(choice, [chosen], Rule.CONFIRMED_TO_RUN)
    decided = _decided(choice, near, Rule.CONFIRMED)
    unlike = found[decided.row.settings].memory is None  # the defaults did not run, so nothing was saved
    return replace(decided, rule=Rule.CONFIRMED_TO_RUN) if unlike else decided


def _decided(choice: Choice, near: Sequence[Row], rule: Rule) -> Choice:
    """The simplest of those that are as good as the first of them."""
    row = min(near, key=lambda row: simplicity(row.settings))
    return replace(choice, row=row, rule=rule, simpler=row is not near[0], searched=choice.row)


def _refuted(one: Confirmed) -> Rule:
    """Why the search's choice is not worth its price."""
    if one.failures:
        return Rule.REFUTED_FAILED
    return Rule.REFUTED_MEMORY if one.memory is None or one.memory.high >= 1 else Rule.REFUTED_PRICE


def _holds(one: Confirmed) -> bool:
    if one.failures:
        return False
    if one.reference_failures:
        return True  # It runs where the defaults do not.
    saves = one.memory is not None and one.memory.high < 1
    return saves and not _slower(one)


def _slower(one: Confirmed) -> bool:
    """Beyond noise, and by more than counts as equally fast; in the typical step or in the slowest ones."""
    limits = ((one.seconds, SLOWER_TOLERATED), (one.tail, LONGER_TAIL_TOLERATED))
    return any(found is not None and found.low > 1 and found.ratio > 1 + most for found, most in limits)


def _worth_its_price(one: Confirmed) -> bool:
    if one.failures or one.memory is None or one.memory.high >= 1:
        return False
    return one.memory.ratio * (one.seconds.ratio if one.seconds else 1.0) < 1


def _fastest_that_fit(finalists: Sequence[Row], runs: Mapping[str, Sequence[Measurement]]) -> list[Row]:
    """Of the finalists that no other is faster than, those within 1 % of the least memory, which is first."""
    sound = [row for row in finalists if all(one.completed for one in runs[row.settings])]
    fast = [
        row
        for row in sound
        if not any(_slower(compared(row.settings, runs[one.settings], runs[row.settings])) for one in sound)
    ]
    memory = {
        row.settings: statistics.median(one.peak_reserved_bytes or 0 for one in runs[row.settings])
        for row in fast
    }
    least = min(memory.values(), default=0)
    near = [row for row in fast if memory[row.settings] <= least * (1 + MARGIN)]
    return sorted(near, key=lambda row: memory[row.settings])


def _by_memory(rows: Sequence[Row], found: Mapping[str, Confirmed]) -> list[Row]:
    return sorted(rows, key=lambda row: _memory(found[row.settings]))


def _memory(one: Confirmed) -> float:
    return one.memory.ratio if one.memory is not None else 1.0


def confirming_runs(rows: Sequence[Row]) -> dict[str, list[Measurement]]:
    """The runs of the latest confirmation, by settings, in the order of their first runs."""
    runs: dict[str, list[Measurement]] = {}
    for row in confirmation(rows):
        runs.setdefault(row.settings, []).append(row.measurement)
    return runs


def confirmations(rows: Sequence[Row]) -> list[Confirmed]:
    """One entry for each finalist other than the defaults, in the order of their first runs."""
    runs = confirming_runs(rows)
    references = runs.pop("", [])
    return [compared(settings, references, found) for settings, found in runs.items()]


def compared(
    settings: str, references: Sequence[Measurement], measurements: Sequence[Measurement]
) -> Confirmed:
    """Runs of some settings against runs of the defaults, the first of one with the first of the other."""
    rounds = list(zip(references, measurements, strict=False))
    complete = [pair for pair in rounds if all(one.completed for one in pair)]
    timed = [pair for pair in complete if all(one.median_step_seconds for one in pair)]
    sides = list(zip(*timed, strict=True)) or [(), ()]
    return Confirmed(
        settings=settings,
        rounds=len(rounds),
        failures=sum(not one.completed for _, one in rounds),
        reference_failures=sum(not one.completed for one, _ in rounds),
        reference_bytes=tuple(one.peak_reserved_bytes or 0 for one, _ in complete),
        peak_reserved_bytes=tuple(one.peak_reserved_bytes or 0 for _, one in complete),
        memory=change(
            [one.peak_reserved_bytes or 0 for one, _ in complete],
            [one.peak_reserved_bytes or 0 for _, one in complete],
        ),
        seconds=change(
            [one.median_step_seconds or 0.0 for one, _ in timed],
            [one.median_step_seconds or 0.0 for _, one in timed],
        ),
        tail=change(*([percentile_95(one.step_seconds) or 0.0 for one in side] for side in sides)),
    )


def sentence(confirmed: Confirmed, *, measured: bool = True) -> str:
    """The finding in words, with its intervals."""
    how = "in fresh processes" if measured else "of replays"
    begin = f"In {confirmed.rounds} rounds {how}, against the defaults:"
    parts = []
    if confirmed.failures:
        parts.append(f"{confirmed.failures} of its runs did not complete")
    if confirmed.reference_failures:
        parts.append(
            f"{confirmed.reference_failures} of {confirmed.rounds} runs under the defaults did not complete"
        )
    if confirmed.peak_reserved_bytes and confirmed.memory is None:
        parts.append(f"peak reserved {format_bytes(max(confirmed.peak_reserved_bytes))}")
    parts += changes(confirmed)
    return f"{begin} {'; '.join(parts) or 'nothing to compare'}."


def changes(confirmed: Confirmed) -> list[str]:
    """What changes, with intervals; the slowest steps only where they do beyond noise."""
    tail = confirmed.tail if confirmed.tail and confirmed.tail.beyond_noise else None
    named = (("peak reserved", confirmed.memory), ("step time", confirmed.seconds), ("its p95", tail))
    return [f"{name} {_change(found)}" for name, found in named if found is not None]


def _change(found: Change) -> str:
    ratio, low, high = (format_change(one, 1) for one in (found.ratio, found.low, found.high))
    if found.low == found.high:
        return "as before in every one" if found.ratio == 1 else f"{ratio} in every one"
    text = f"{ratio} (95 % interval {low} to {high})"
    return text if found.beyond_noise else f"{text}, no difference beyond noise"
