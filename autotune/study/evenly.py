"""Some of many, evenly over their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def evenly(items: Sequence[Item], most: int) -> list[Item]:
    """At most so many of the items, in their order, both ends kept (of one, the first)."""
    if len(items) <= most or most < 2:
        return list(items[: max(most, 0)])
    return [items[round(index * (len(items) - 1) / (most - 1))] for index in range(most)]
