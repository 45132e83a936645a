"""The Pareto front: rows that no other row beats in every objective at once. All objectives are minimised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    """True when `one` is nowhere worse than `other` and somewhere better."""
    return all(a <= b for a, b in zip(one, other, strict=True)) and tuple(one) != tuple(other)


def front(points: Mapping[int, Sequence[float]]) -> list[int]:
    """Keys of the points that no other point dominates, in the mapping's order; equal points all stay."""
    distinct = {tuple(point) for point in points.values()}
    best = {point for point in distinct if not any(dominates(other, point) for other in distinct)}
    return [key for key, point in points.items() if tuple(point) in best]
