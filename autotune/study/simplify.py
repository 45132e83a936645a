"""Simplify: the shortest settings that do as well. A search leaves options behind that gain nothing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from autotune.settings import ROUNDUP_INTERVALS, AllocatorSettings
from autotune.study.predict import Prediction, Predictor
from autotune.study.space import SearchSpace

MEMORY_TOLERATED, SECONDS_TOLERATED = 0.001, 0.02
"""How much more, as a share, simpler settings may take in all: less than anybody would write a list for."""

_OPTIONAL = (
    "max_split_size_mb",
    "max_non_split_rounding_mb",
    "garbage_collection_threshold",
    "roundup_power2_divisions",
    "large_segment_size_mb",
)


def simplify(predictor: Predictor, space: SearchSpace, found: Prediction) -> Prediction:
    """The simplest settings reached by leaving out one thing after the other; the same ones if none does.

    Args:
        predictor: replays.
        space: its rules and limits make a canonical string.
        found: what must not get worse; in its smallest fit not at all, if that is known.
    """
    memory, fit, seconds = found.objectives
    memory, seconds = memory * (1 + MEMORY_TOLERATED), seconds * (1 + SECONDS_TOLERATED)
    best = found
    while True:
        shorter = {str(one): one for one in (space.canonical(one) for one in _shorter(space, best.settings))}
        tried = sorted(predictor.predict_many(list(shorter.values())), key=lambda one: one.simplicity)
        good = (
            one
            for one in tried
            if one.simplicity < best.simplicity
            and one.completes
            and one.memory <= memory
            and one.seconds <= seconds
            and (found.measurement.smallest_fit_bytes is None or _fits(predictor, one, int(fit)))
        )
        simpler = next(good, None)
        if simpler is None:
            return best
        best = simpler


def _fits(predictor: Predictor, found: Prediction, memory_limit: int) -> bool:
    return predictor.complete_within(memory_limit, [found.settings])[0]


def _shorter(space: SearchSpace, settings: AllocatorSettings) -> Iterator[AllocatorSettings]:
    """The settings without one of their options, or with one range less in the list of divisions."""
    for name in _OPTIONAL:
        if getattr(settings, name) is not None:
            yield replace(settings, **{name: None})  # type: ignore[arg-type]
    table = settings.roundup_divisions(space.torch_version)
    borders = [0, *(i for i in range(1, ROUNDUP_INTERVALS) if table[i] != table[i - 1]), ROUNDUP_INTERVALS]
    for begin, end in itertools.pairwise(borders):
        for divisions in {0, *table[begin - 1 : begin], *table[end : end + 1]} - {table[begin]}:
            merged = (*table[:begin], *[divisions] * (end - begin), *table[end:])
            listed = tuple((1 << index, value or 1) for index, value in enumerate(merged))
            yield replace(settings, roundup_power2_divisions=listed)
