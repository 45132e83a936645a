"""The largest value of a script's argument that runs, for each of several settings, by bisection.

Bisection takes it that what runs with a value runs with every smaller one. It asks in an order that saves
runs: first where a replay, or another settings' answer, says that the answer lies. A guess only changes the
order; a value counts as running only if it ran, and as too large only if it ran out of memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from autotune.errors import UsageError, WorkFailedError
from autotune.measurement import Measurement, Outcome
from autotune.report.fitted import Largest
from autotune.settings import AllocatorSettings

MOST_VALUES = 1_000_000


class Attempt(Protocol):
    """Runs the script with one value under some settings."""

    def __call__(self, settings: AllocatorSettings, value: int) -> Measurement:
        """The run's measurement; running out of memory is an outcome of it."""
        ...


def parse_range(text: str) -> range:
    """The values of `LO:HI` or `LO:HI:STEP`, both ends included.

    Raises:
        UsageError: it is no such range, or an empty one.
    """
    parts = text.split(":")
    if len(parts) not in (2, 3) or not all(
        part.isascii() and part.isdigit() and len(part) < 16 for part in parts
    ):
        raise UsageError(f"--range {text} is no range of whole numbers; write it as 1:512 or 8:512:8.")
    low, high, step = (*map(int, parts), 1)[:3]
    if step < 1 or high < low or (high - low) // step >= MOST_VALUES:
        raise UsageError(f"--range {text} holds no value, or more than {MOST_VALUES:,}; write it as 1:512.")
    return range(low, high + 1, step)


def with_value(text: str, value: int) -> list[str]:
    """The words of an argument such as `--batch-size {}`, with the value in place of `{}`.

    Raises:
        UsageError: there is no `{}` in it, or its quotes do not match.
    """
    import shlex

    if "{}" not in text:
        raise UsageError(f"--arg '{text}' has no {{}} for the value; write it as --arg '--batch-size {{}}'.")
    try:
        return shlex.split(text.replace("{}", str(value)))
    except ValueError as error:
        raise UsageError(f"--arg '{text}' cannot be read: {error}.") from error


def largest(
    attempt: Attempt, settings: AllocatorSettings, values: range, guess: int | None = None
) -> Largest:
    """Find the largest value that runs.

    Args:
        attempt: runs the script.
        settings: under which.
        values: ascending.
        guess: where the answer may lie; only saves runs.

    Raises:
        WorkFailedError: a run ended in another way than by completing or running out of memory.
    """
    found: dict[int, Measurement] = {}

    def runs(index: int) -> bool:
        measurement = attempt(settings, values[index])
        found[index] = measurement
        if measurement.outcome not in (Outcome.COMPLETED, Outcome.OUT_OF_MEMORY):
            raise WorkFailedError(f"With the value {values[index]} the script did not run: {measurement.why}")
        return measurement.outcome is Outcome.COMPLETED

    low, high = -1, len(values)  # runs, does not run
    for index in _order(values, guess):
        if low < index < high:
            low, high = (index, high) if runs(index) else (low, index)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if runs(middle) else (low, middle)
    return Largest(
        settings=settings,
        value=values[low] if low >= 0 else None,
        at_the_end=low == len(values) - 1,
        measurement=found.get(low),
        runs=len(found),
    )


def _order(values: range, guess: int | None) -> Iterator[int]:
    """Indexes to ask first: around the guess, wider and wider; without one, the smallest value."""
    if guess is None or guess not in values:
        yield 0
        return
    at = values.index(guess)
    yield at
    for step in (1, 4, 16):
        yield at + step
        yield at - step


def largest_of_each(
    attempt: Attempt, settings: Sequence[AllocatorSettings], values: range, predict: Attempt | None = None
) -> list[Largest]:
    """The answer for each of the settings.

    Args:
        attempt: runs the script.
        settings: under which.
        values: ascending.
        predict: tells beforehand, with fewer runs, what will probably run; where it is right, two runs of
            each settings prove it: the value runs, the next one does not. Without it the answer before is
            the guess.
    """
    answers: list[Largest] = []
    for one in settings:
        guess = answers[-1].value if answers else None
        if predict is not None:
            guess = largest(predict, one, values, guess).value
        answers.append(largest(attempt, one, values, guess))
    return answers
