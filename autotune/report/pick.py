"""Choosing one row of a study: the rules behind `recommended` and behind `export --pick`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypedDict

from autotune.report.doubts import retried_steps
from autotune.report.objectives import must, point
from autotune.report.pace import Pace
from autotune.report.stored import Row
from autotune.settings import simplicity

WORTHWHILE_SAVING = 0.01
"""Peak reserved must fall by at least this share before settings are preferred to the defaults."""

NO_DIFFERENCE = 0.005
"""Peak reserved this much above another's, as a share of it, does not outweigh a shorter string."""
ANY_PACE = Pace()


class Rule(StrEnum):
    """Which rule chose a row; `reasons` puts it into words."""

    AS_FAST = "as_fast"
    """The least memory of those as fast as the yardstick."""
    FITS = "fits"
    """Under a memory limit: the same, of those as fast as the fastest."""
    FITS_AS_IT_IS = "fits_as_it_is"
    """Under a memory limit: the yardstick, as it is fast enough and nothing as fast saves enough."""
    WORTH_ITS_PRICE = "worth_its_price"
    """A saving larger than its price in time."""
    NOTHING_SAVED = "nothing_saved"
    """The yardstick, as nothing saves enough."""
    NOTHING_WORTH_IT = "nothing_worth_it"
    """The yardstick, as what saves enough costs more than that."""
    CONFIRMED = "confirmed"
    """The best of the finalists that a confirmation bears out."""
    CONFIRMED_TO_RUN = "confirmed_to_run"
    """It ran in every round of a confirmation in which the defaults did not always run."""
    CONFIRMED_PRICE = "confirmed_price"
    """No finalist is borne out as being as fast, and the search's choice saves more than it costs."""
    CONFIRMED_FITS = "confirmed_fits"
    """Under a memory limit: the best of the finalists that no other is faster than."""
    CHECKED = "checked"
    """The better one by the same rule on a recording with more steps."""
    REFUTED_FAILED = "refuted_failed"
    """The defaults, as what the search chose did not always complete in the confirmation."""
    REFUTED_MEMORY = "refuted_memory"
    """The defaults, as it saved no memory beyond noise there."""
    REFUTED_PRICE = "refuted_price"
    """The defaults, as it cost more in time than it saved there."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A chosen row, and what there is to say about why."""

    row: Row
    rule: Rule
    yardstick: Row
    """Whose speed counts, and whose memory: the defaults, or the fastest where they did not complete."""
    allowed: float
    """The third objective up to which a row counts as fast as the yardstick."""
    quicker: bool = False
    """It is faster than the least memory, of which it needs hardly more."""
    simpler: bool = False
    """It stands for one with hardly less memory and more to write down."""
    without_retries: bool = False
    """Others that are as fast were passed over as they take more steps with allocation retries."""
    searched: Row | None = None
    """What the search had chosen, where a confirmation decided."""


class _Yardstick(TypedDict):
    yardstick: Row
    allowed: float


def memory_pick(rows: Sequence[Row]) -> Row | None:
    """The smallest peak reserved; among equals the fastest, then the earliest."""
    usable = _usable(rows)
    return min(usable, key=lambda row: (*_ordered(row, 0, 2), row.number), default=None)


def speed_pick(rows: Sequence[Row]) -> Row | None:
    """The smallest third objective; among equals the least memory, then the earliest."""
    usable = _usable(rows)
    return min(usable, key=lambda row: (*_ordered(row, 2, 0), row.number), default=None)


def balanced_pick(
    rows: Sequence[Row], baseline: Row | None, *, pace: Pace = ANY_PACE, limited: bool = False
) -> Row | None:
    """The row of `balanced_choice`."""
    chosen = balanced_choice(rows, baseline, pace=pace, limited=limited)
    return chosen.row if chosen is not None else None


def balanced_choice(
    rows: Sequence[Row], baseline: Row | None, *, pace: Pace = ANY_PACE, limited: bool = False
) -> Choice | None:
    """The recommendation: what memory can be saved without paying for it in time.

    1. Of the rows that are as fast as the defaults (`Pace.as_fast`), the one with the smallest peak reserved,
       if that saves at least 1 % of the defaults' memory. Another that needs hardly more, less than 1 % of
       the defaults' memory, takes its place where it is faster by more than what counts as equal. Of those
       as fast as the choice and within 0.5 % of its memory, the simplest settings stand for it.
    2. Else, of the rows that save at least 1 %, the one with the smallest product of memory and time
       relative to the defaults, if that product is below one: a saving larger than its price.
    3. Else the defaults.

    The answer never needs more memory than the defaults. Where the defaults ran out of memory, the fastest
    row that completed takes their place in rule 1, and its own memory is the yardstick.

    Under a memory limit everything that completes fits, and what is left to ask is how fast: there the choice
    of rule 1 is made among all rows that are as fast as the fastest, without those that take more steps with
    allocation retries to be so; the defaults, if they are one of them and 1 % is not saved.

    Args:
        rows: the study's rows.
        baseline: the defaults' row.
        pace: what counts as equally fast.
        limited: whether there is a memory limit.
    """
    usable = _usable(rows)
    reference = baseline if baseline is not None and point(baseline) else pace.fastest(usable)
    if reference is None:
        return None
    memory = must(reference)[0]
    saving = [row for row in usable if must(row)[0] <= memory * (1 - WORTHWHILE_SAVING)]
    if limited:
        return _choice_that_fits(usable, saving, reference, pace)
    as_fast = [row for row in saving if pace.as_fast(row, reference)]
    if as_fast:
        return _least(as_fast, Choice(row=reference, rule=Rule.AS_FAST, **_by(reference, pace)), memory, pace)
    return _worth_its_price(saving, Choice(row=reference, rule=Rule.NOTHING_SAVED, **_by(reference, pace)))


def _choice_that_fits(usable: Sequence[Row], saving: Sequence[Row], reference: Row, pace: Pace) -> Choice:
    fastest = pace.fastest(usable) or reference
    all_as_fast = [row for row in usable if pace.as_fast(row, fastest)]
    as_fast = _fewest_retries(all_as_fast)
    found = Choice(
        row=reference,
        rule=Rule.FITS_AS_IT_IS,
        without_retries=len(as_fast) < len(all_as_fast),
        **_by(fastest, pace),
    )
    if reference in as_fast and not any(row in saving for row in as_fast):
        return found
    return _least(as_fast, replace(found, rule=Rule.FITS), must(reference)[0], pace)


def _by(yardstick: Row, pace: Pace) -> _Yardstick:
    return {"yardstick": yardstick, "allowed": pace.allowed(yardstick)}


def _least(as_fast: Sequence[Row], found: Choice, memory: float, pace: Pace) -> Choice:
    """Of rows that are as fast, the one with the least memory, or what takes its place."""
    smallest = min(as_fast, key=lambda row: (*_ordered(row, 0, 2), row.number))
    best = _quickest_beside(smallest, as_fast, memory * WORTHWHILE_SAVING, pace)
    row = _simplest_like(best, as_fast, pace)
    return replace(found, row=row, quicker=best is not smallest, simpler=row is not best)


def _worth_its_price(saving: Sequence[Row], kept: Choice) -> Choice:
    """The saving that is largest beside its price, if it is larger."""
    if not saving:
        return kept
    worth = min(saving, key=lambda row: (price(row, kept.yardstick), row.number))
    if price(worth, kept.yardstick) < 1:
        return replace(kept, row=worth, rule=Rule.WORTH_ITS_PRICE)
    return replace(kept, rule=Rule.NOTHING_WORTH_IT)


def _fewest_retries(rows: Sequence[Row]) -> list[Row]:
    """The rows that seldomest had to give everything cached back; a longer run may do so more often."""
    fewest = min((retried_steps(row.measurement) for row in rows), default=0)
    return [row for row in rows if retried_steps(row.measurement) == fewest]


def _quickest_beside(smallest: Row, rows: Sequence[Row], margin: float, pace: Pace) -> Row:
    """The smallest peak reserved, unless one within `margin` bytes of it is really faster."""
    near = [row for row in rows if must(row)[0] <= must(smallest)[0] + margin]
    quickest = min(near, key=lambda row: (*_ordered(row, 2, 0), row.number))
    return smallest if must(smallest)[2] <= pace.allowed(quickest) else quickest


def _simplest_like(best: Row, rows: Sequence[Row], pace: Pace) -> Row:
    """Of the rows that are as good as the best, the one with the least to write down."""
    memory, allowed = must(best)[0] * (1 + NO_DIFFERENCE), pace.allowed(best)
    alike = [row for row in rows if must(row)[0] <= memory and must(row)[2] <= allowed]
    return min(
        alike, key=lambda row: (simplicity(row.settings)[0], *_ordered(row, 0, 2), row.number), default=best
    )


def _usable(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if point(row) is not None]


def _ordered(row: Row, first: int, second: int) -> tuple[float, float]:
    values = must(row)
    return values[first], values[second]


def price(row: Row, yardstick: Row) -> float:
    """Memory and time relative to the yardstick, multiplied; infinite where the yardstick takes no time."""
    own, other = must(row), must(yardstick)
    return own[0] / other[0] * (own[2] / other[2] if other[2] > 0 else math.inf)
