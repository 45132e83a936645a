"""What the confirmation found: finalists against the defaults, with more steps than a trial has.

On a GPU in rounds of fresh processes; without one once, by replay of a recording that is longer.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from autotune.measurement import Measurement, Obtained
from autotune.report.noise import Change, change, exact_change, percentile_95
from autotune.report.pace import LONGER_TAIL_TOLERATED, SLOWER_TOLERATED, Pace
from autotune.report.pick import ANY_PACE, Choice, Rule, balanced_choice
from autotune.report.stored import Row, confirmation, searched
from autotune.settings import simplicity
from autotune.units import format_bytes, format_change

MORE_STEPS = 2
"""How many times the steps of a trial a confirming run has."""
LEAST_ROUNDS = 3
"""Fewer say too little to overthrow a recommendation; of replays, which do not differ, one is enough."""
GROWN = 1.02
"""A peak this many times that of a run with fewer steps depends on their number."""
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
    measured: bool = True
    """False where the runs are replays."""

    @property
    def title(self) -> str:
        """What it is called: replays check, they prove nothing of the GPU."""
        return "Confirmed" if self.measured else "Checked"

    def to_json(self) -> dict[str, Any]:
        """The fields, for `--json`."""
        return asdict(self)


def confirmed_choice(
    rows: Sequence[Row],
    choice: Choice | None,
    baseline: Row | None,
    *,
    pace: Pace = ANY_PACE,
    limited: bool = False,
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

    Replays do not differ from run to run: of them one round decides, by the rule of the search.

    Args:
        rows: the study's rows.
        choice: the search's own.
        baseline: the defaults' row.
        pace: what counts as equally fast in the search.
        limited: whether there is a memory limit.
    """
    runs = confirming_runs(rows)
    own = runs.get(choice.row.settings, []) if choice is not None else []
    if choice is None or not own:
        return choice
    if all(one.obtained is not Obtained.MEASURED for one in own):
        return _choose_again(rows, choice, pace, limited=limited)
    if len(own) < LEAST_ROUNDS:
        return choice
    chosen = choice.row
    found = {one.settings: one for one in confirmations(rows) if one.rounds >= LEAST_ROUNDS}
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


def _choose_again(rows: Sequence[Row], choice: Choice, pace: Pace, *, limited: bool) -> Choice:
    """What the search would choose from the finalists' longer replays; its choice where none completes."""
    finalists = confirmation(rows)
    defaults = next((row for row in finalists if not row.settings), None)
    seconds, steps = pace.recorded_seconds, pace.recorded_steps
    longer = replace(
        pace,
        recorded_seconds=seconds and MORE_STEPS * seconds,
        recorded_steps=steps and MORE_STEPS * steps,
    )
    again = balanced_choice(finalists, defaults, pace=longer, limited=limited)
    if again is None or again.row.settings == choice.row.settings:
        return choice
    same = (row for row in searched(rows) if row.settings == again.row.settings and row.completed)
    row = next(same, None)
    return replace(choice, row=row, rule=Rule.CHECKED, searched=choice.row) if row else choice


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
    measured = any(one.obtained is Obtained.MEASURED for pair in rounds for one in pair)
    references_bytes, own_bytes = (
        tuple(pair[side].peak_reserved_bytes or 0 for pair in complete) for side in (0, 1)
    )
    return Confirmed(
        settings=settings,
        measured=measured,
        rounds=len(rounds),
        failures=sum(not one.completed for _, one in rounds),
        reference_failures=sum(not one.completed for one, _ in rounds),
        reference_bytes=references_bytes,
        peak_reserved_bytes=own_bytes,
        memory=(change if measured else exact_change)(references_bytes, own_bytes),
        seconds=change(
            [one.median_step_seconds or 0.0 for one, _ in timed],
            [one.median_step_seconds or 0.0 for _, one in timed],
        ),
        tail=change(*([percentile_95(one.step_seconds) or 0.0 for one in side] for side in sides)),
    )


def growth(rows: Sequence[Row]) -> str | None:
    """That the peak rises with the number of steps, as the confirming runs show; None where it does not."""
    first = {row.settings: row.measurement.peak_reserved_bytes for row in reversed(searched(rows))}
    parts = []
    for settings, runs in confirming_runs(rows).items():
        longer = [one.peak_reserved_bytes or 0 for one in runs if one.completed]
        before, after = first.get(settings), statistics.median(longer or [0])
        if before and after > GROWN * before:
            rise = f"{format_bytes(after)} instead of {format_bytes(before)}"
            parts.append(f"{settings or 'the defaults'} {rise}")
    if not parts:
        return None
    return (
        f"With {MORE_STEPS} times the steps the peak is higher ({'; '.join(parts)}), so a longer run may "
        "need more still: before choosing a card or a limit, measure more steps with --steps."
    )


def sentence(confirmed: Confirmed, *, how: str | None = None) -> str:
    """The finding in words, with its intervals.

    Args:
        confirmed: the finding.
        how: how it came about; None = as by a confirmation.
    """
    if how is None:
        longer = f"Replayed on a recording with {MORE_STEPS} times the steps"
        how = f"In {confirmed.rounds} rounds in fresh processes" if confirmed.measured else longer
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
    return f"{how}, against the defaults: {'; '.join(parts) or 'nothing to compare'}."


def changes(confirmed: Confirmed) -> list[str]:
    """What changes, with intervals; the slowest steps only where they do beyond noise."""
    tail = confirmed.tail if confirmed.tail and confirmed.tail.beyond_noise else None
    named = (("peak reserved", confirmed.memory), ("step time", confirmed.seconds), ("its p95", tail))
    return [f"{name} {_change(found)}" for name, found in named if found is not None]


def _change(found: Change) -> str:
    ratio, low, high = (format_change(one, 1) for one in (found.ratio, found.low, found.high))
    if found.rounds == 1:
        return ratio
    if found.low == found.high:
        return "as before in every one" if found.ratio == 1 else f"{ratio} in every one"
    text = f"{ratio} (95 % interval {low} to {high})"
    return text if found.beyond_noise else f"{text}, no difference beyond noise"
