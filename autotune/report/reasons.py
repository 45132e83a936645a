"""Why a row is recommended, in one sentence: by which rule, compared with what, and what counted as equal."""

from __future__ import annotations

from autotune.measurement import Obtained
from autotune.report.doubts import retried_steps
from autotune.report.objectives import must
from autotune.report.pace import FREE_SECONDS_A_STEP, SLOWER_TOLERATED
from autotune.report.pick import Choice, Rule, price
from autotune.report.stored import Role
from autotune.units import format_percent, format_seconds


def why(choice: Choice) -> str:
    """The sentence, to follow `Why: `."""
    if choice.searched is None:
        return f"{_searched(choice)}."
    return f"{_overruled(choice)}{_confirmed(choice)}."


def _searched(choice: Choice) -> str:
    """The search's own rules."""
    name, equal = _name(choice), _equal(choice)
    if choice.rule is Rule.AS_FAST:
        return f"as fast as {name} ({equal}), {_among(choice)}"
    if choice.rule in (Rule.FITS, Rule.FITS_AS_IT_IS):
        return f"under a memory limit speed decides: {_fitting(choice)}"
    if choice.rule is Rule.WORTH_ITS_PRICE:
        return (
            f"nothing as fast as {name} ({equal}) saves 1 % of the memory; of what is slower this is most "
            f"worth its price, as memory and time, relative to {name}, multiply to "
            f"{price(choice.row, choice.yardstick):.2f}"
        )
    if choice.rule is Rule.NOTHING_WORTH_IT:
        return (
            f"nothing as fast as {name} ({equal}) saves 1 % of the memory, and what is slower costs more in "
            "time than it saves"
        )
    return f"nothing that was tried saves 1 % of the memory of {name}"


def _name(choice: Choice) -> str:
    row = choice.yardstick
    if row.role is Role.DEFAULT:
        return "the defaults"
    return "this one, the fastest" if choice.row is row else f"the fastest, trial {row.number}"


def _fitting(choice: Choice) -> str:
    fastest = "this one" if choice.row is choice.yardstick else f"trial {choice.yardstick.number}"
    those = f"those as fast as the fastest that fits ({fastest}; {_equal(choice)})"
    if choice.without_retries:
        retried = retried_steps(choice.row.measurement)
        those += f" and with the fewest steps with allocation retries ({retried})"
    if choice.rule is Rule.FITS_AS_IT_IS:
        return f"of {those} none needs 1 % less memory than this one"
    return f"of {those} this is {_among(choice)}"


def _among(choice: Choice) -> str:
    """Its memory and its settings among those that are as fast."""
    if choice.quicker:
        text = "faster than the one with the least memory among those, which saves less than 1 % more"
        return f"{text}, and the simplest settings of its kind" if choice.simpler else text
    least = "the least memory among those"
    return f"the simplest settings within 0.5 % of {least}" if choice.simpler else f"the one with {least}"


def _equal(choice: Choice) -> str:
    """What counts as equally fast."""
    seconds, obtained = must(choice.yardstick)[2], choice.yardstick.measurement.obtained
    more = choice.allowed - seconds
    share = more / seconds if seconds > 0 else None
    only_the_share = share is not None and share <= SLOWER_TOLERATED * 1.001
    if obtained is Obtained.MEASURED and share is not None:
        noise = "" if only_the_share else ", the noise,"
        return f"up to {format_percent(share)} slower{noise} counts as equal"
    if more <= 0:
        return "without any more driver time"
    if only_the_share:
        return "up to 2 % more driver time counts as equal"
    free = "2 % of the recorded run"
    if obtained is Obtained.ESTIMATED:
        free = f"{format_seconds(FREE_SECONDS_A_STEP)} a step"
    return f"up to {format_seconds(more)} more driver time, {free}, counts as equal"


_REFUTED = {
    Rule.REFUTED_FAILED: "which did not complete every time in the confirmation",
    Rule.REFUTED_MEMORY: "which saves no memory beyond noise in the confirmation",
    Rule.REFUTED_PRICE: "which costs more in time than it saves in the confirmation",
}


def _overruled(choice: Choice) -> str:
    found = choice.searched
    if found is None or found is choice.row:
        return ""
    return f"the search chose trial {found.number}, " + (
        "" if choice.rule in _REFUTED else f"and {_check(choice)} overrules it: "
    )


def _check(choice: Choice) -> str:
    return "a check" if choice.rule is Rule.CHECKED else "the confirmation"


def _confirmed(choice: Choice) -> str:
    """The rules of a confirmation."""
    if choice.rule in _REFUTED:
        return _REFUTED[choice.rule]
    if choice.rule is Rule.CONFIRMED_TO_RUN:
        return "this one ran every time in the confirmation, and the defaults did not"
    if choice.rule is Rule.CHECKED:
        return "by the same rule this one is the better on a recording with more steps"
    if choice.rule is Rule.CONFIRMED_PRICE:
        return (
            "in the confirmation no finalist saves memory at the same speed, and this one saves more than it "
            "costs in time"
        )
    least = "the simplest settings within 1 % of the least memory" if choice.simpler else "the least memory"
    if choice.rule is Rule.CONFIRMED_FITS:
        return (
            "under a memory limit speed decides: of the finalists that always completed in the confirmation, "
            f"and than which no other is faster, {least}"
        )
    return f"of the finalists that save memory beyond noise in the confirmation and are not slower, {least}"
