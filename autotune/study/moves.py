"""Where the screening looks: single options, random combinations, and the neighbours of what is good.

Neighbours leave the lists of the search space: any even segment size, and divisions chosen for every power of
two in which the program requests memory. Segments as large as a good part of the live peak, or all of it, are
looked at outright: one such segment is an arena in which everything finds a place, which without expandable
segments often comes closest to the live peak.
"""

from __future__ import annotations

import itertools
import math
import operator
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from autotune.settings import DEFAULT_LARGE_SEGMENT_MB, MOST_MEGABYTES, ROUNDUP_INTERVALS, AllocatorSettings
from autotune.study.space import LARGE_SEGMENT_SIZES_MB, NON_SPLIT_ROUNDINGS_MB, ROUNDUP, SearchSpace
from autotune.trace.trace import Trace
from autotune.units import MIB

Item = TypeVar("Item")

DIVISIONS = (0, 2, 4, 8, 16, 32)
"""Divisions of one power of two; 0 = sizes are not rounded there."""
WEIGHTS = (6, 3, 3, 2, 1)
"""How often a step changes divisions, segments, split size, garbage collection, expandable segments."""
LARGEST_PAGE_MB = 4096
"""Segment size up to which it is tried as the page size of expandable segments."""
ARENA_SHARES = (
    0.125, 0.17, 0.2, 0.25, 0.34, 0.5, 0.6, 0.7, 0.8, 0.9,
    0.95, 0.97, 0.98, 0.99, 1.0, 1.01, 1.02, 1.05, 1.1, 1.2,
)  # fmt: skip
"""Segment sizes, as shares of the live peak."""
SEGMENT_FACTORS = (0.5, 0.75, 0.9, 1.1, 1.25, 1.5, 2.0)
THRESHOLD_STEPS = (-0.2, -0.05, 0.05, 0.2)


@dataclass(frozen=True, kw_only=True)
class Moves:
    """Steps through the settings that a space admits, for one trace."""

    space: SearchSpace
    intervals: tuple[int, ...]
    """Powers of two (as indices of the divisions' table) in which the trace has requests, ascending."""
    arenas_mb: tuple[int, ...] = ()
    """Segment sizes that hold a good part of the program's memory, ascending."""

    @classmethod
    def on(cls, trace: Trace, space: SearchSpace) -> Moves:
        """The moves that can matter on this trace."""
        return cls(space=space, intervals=requested_intervals(trace), arenas_mb=arena_sizes(trace))

    def singles(self) -> Iterator[AllocatorSettings]:
        """The defaults, and every value of every option alone."""
        plain = AllocatorSettings()
        yield plain
        yield from self._kept(itertools.chain(self._expandable(plain), self._far(plain)))

    def pairs(self) -> Iterator[AllocatorSettings]:
        """Every two options together."""
        for one in self.singles():
            yield from self._kept(itertools.chain(self._expandable(one), self._far(one)))

    def drawn(self, chance: random.Random) -> AllocatorSettings:
        """Some settings of the space."""
        return self.space.draw(chance.choice)

    def neighbour(self, settings: AllocatorSettings, chance: random.Random) -> AllocatorSettings:
        """Settings one step away, in a random direction; the same ones where there is no such step."""
        directions = [self._divisions, self._segments, self._split, self._garbage, self._expandable]
        for direction in _shuffled(directions, WEIGHTS, chance):
            for step in self._kept(direction(settings, chance)):
                if step != settings:
                    return step
        return settings

    def _kept(self, settings: Iterator[AllocatorSettings]) -> Iterator[AllocatorSettings]:
        """Those that are legal and allowed here, in their shortest form."""
        for one in settings:
            if self.space.admits(one):
                yield self.space.canonical(one)

    def _far(self, settings: AllocatorSettings) -> Iterator[AllocatorSettings]:
        """Every listed value of an option that is not mentioned yet."""
        space = self.space
        if settings.roundup_power2_divisions is None and space.offers(ROUNDUP):
            for choice in space.values(ROUNDUP):
                listed = AllocatorSettings.parse(f"{ROUNDUP}:{choice}" if choice != "off" else "")
                yield replace(settings, roundup_power2_divisions=listed.roundup_power2_divisions)
        if settings.large_segment_size_mb is None and space.offers("large_segment_size_mb"):
            yield from (replace(settings, large_segment_size_mb=size) for size in LARGE_SEGMENT_SIZES_MB)
            arenas = () if settings.expandable_segments else self.arenas_mb
            yield from (replace(settings, large_segment_size_mb=size) for size in arenas)
        if settings.expandable_segments:
            return
        if settings.max_split_size_mb is None and space.offers("max_split_size_mb"):
            yield from (replace(settings, max_split_size_mb=size) for size in space.split_sizes_mb)
        if settings.max_split_size_mb and space.offers("max_non_split_rounding_mb"):
            for size in NON_SPLIT_ROUNDINGS_MB[1:]:
                yield replace(settings, max_non_split_rounding_mb=size)
        if settings.garbage_collection_threshold is None and space.offers("garbage_collection_threshold"):
            for value in (0.2, 0.4, 0.6, 0.8, 0.9):
                yield replace(settings, garbage_collection_threshold=value)

    def _expandable(
        self, settings: AllocatorSettings, chance: random.Random | None = None
    ) -> Iterator[AllocatorSettings]:
        if not self.space.offers("expandable_segments"):
            return
        if settings.expandable_segments:
            yield replace(settings, expandable_segments=None)
        else:
            size = settings.large_segment_size_mb
            yield replace(
                settings,
                expandable_segments=True,
                large_segment_size_mb=size if size and size <= LARGEST_PAGE_MB else None,
                max_split_size_mb=None,
                max_non_split_rounding_mb=None,
                garbage_collection_threshold=None,
            )

    def _divisions(self, settings: AllocatorSettings, chance: random.Random) -> Iterator[AllocatorSettings]:
        """Other divisions for one power of two, for all from it on, or for all up to it, in any order."""
        if not self.space.offers(ROUNDUP):
            return
        table = settings.roundup_divisions(self.space.torch_version)
        own = {index: table[index] for index in self.intervals}
        reaches = (operator.eq, operator.ge, operator.le)
        for at, divisions, reach in _mixed(itertools.product(self.intervals, DIVISIONS, reaches), chance):
            if own[at] != divisions:
                yield self._with_divisions(settings, {i: divisions if reach(i, at) else own[i] for i in own})

    def _with_divisions(self, settings: AllocatorSettings, chosen: dict[int, int]) -> AllocatorSettings:
        """Powers of two without requests follow the next smaller one, which makes the list short."""
        table, current = [], chosen[self.intervals[0]]
        for index in range(ROUNDUP_INTERVALS):
            current = chosen.get(index, current)
            table.append((1 << index, current or 1))
        return replace(settings, roundup_power2_divisions=tuple(table))

    def _segments(self, settings: AllocatorSettings, chance: random.Random) -> Iterator[AllocatorSettings]:
        if not self.space.offers("large_segment_size_mb"):
            return
        size = settings.large_segment_size_mb or DEFAULT_LARGE_SEGMENT_MB
        near = {2 * round(size * factor / 2) for factor in SEGMENT_FACTORS} | {size - 2, size + 2}
        largest = LARGEST_PAGE_MB if settings.expandable_segments else max((LARGEST_PAGE_MB, *self.arenas_mb))
        for other in _mixed(sorted({*near, DEFAULT_LARGE_SEGMENT_MB} - {size}), chance):
            if 12 <= other <= largest:
                split, rounding = settings.max_split_size_mb, settings.max_non_split_rounding_mb
                yield replace(
                    settings,
                    large_segment_size_mb=other,
                    max_split_size_mb=split and max(split, other),
                    max_non_split_rounding_mb=rounding and max(rounding, other),
                )

    def _split(self, settings: AllocatorSettings, chance: random.Random) -> Iterator[AllocatorSettings]:
        if not settings.expandable_segments and self.space.offers("max_split_size_mb"):
            yield from _mixed(self._split_steps(settings), chance)

    def _split_steps(self, settings: AllocatorSettings) -> Iterator[AllocatorSettings]:
        own, sizes = settings.max_split_size_mb, self.space.split_sizes_mb
        if own is None:
            yield from (replace(settings, max_split_size_mb=size) for size in sizes)
            return
        yield replace(settings, max_split_size_mb=None, max_non_split_rounding_mb=None)
        near = [*[size for size in sizes if size < own][-2:], *[size for size in sizes if size > own][:2]]
        for size in near:
            yield replace(settings, max_split_size_mb=size)
            yield replace(settings, max_split_size_mb=(size + own) // 2)
        if self.space.offers("max_non_split_rounding_mb"):
            for rounding in (None, *NON_SPLIT_ROUNDINGS_MB[1:]):
                yield replace(settings, max_non_split_rounding_mb=rounding)

    def _garbage(self, settings: AllocatorSettings, chance: random.Random) -> Iterator[AllocatorSettings]:
        if not settings.expandable_segments and self.space.offers("garbage_collection_threshold"):
            yield from _mixed(self._garbage_steps(settings), chance)

    def _garbage_steps(self, settings: AllocatorSettings) -> Iterator[AllocatorSettings]:
        own = settings.garbage_collection_threshold
        if own is None:
            yield from (replace(settings, garbage_collection_threshold=value) for value in (0.5, 0.7, 0.9))
            return
        yield replace(settings, garbage_collection_threshold=None)
        for step in THRESHOLD_STEPS:
            if 0.05 <= (value := round(own + step, 2)) <= 0.98:
                yield replace(settings, garbage_collection_threshold=value)


def arena_sizes(trace: Trace) -> tuple[int, ...]:
    """Even segment sizes in MB at the ARENA_SHARES of the live peak, above those that the space lists."""
    live = trace.peak_requested_bytes / MIB
    sizes = {2 * math.ceil(share * live / 2) for share in ARENA_SHARES}
    legal = (size for size in sizes if LARGE_SEGMENT_SIZES_MB[-1] < size <= MOST_MEGABYTES)
    return tuple(sorted(legal))


def requested_intervals(trace: Trace) -> tuple[int, ...]:
    """Indices of the powers of two in which the trace requests memory; the first takes all below 2 MiB."""
    sizes = np.unique(trace.size)
    if not len(sizes):
        return (0,)
    found = np.clip(np.log2(sizes / MIB).astype(np.int64), 0, ROUNDUP_INTERVALS - 1)
    return tuple(int(index) for index in np.unique(found))


def _mixed(items: Iterable[Item], chance: random.Random) -> list[Item]:
    mixed = list(items)
    chance.shuffle(mixed)
    return mixed


def _shuffled(items: list[Item], weights: tuple[int, ...], chance: random.Random) -> list[Item]:
    """The items in a random order in which a heavy one tends to come early."""
    keys = [chance.random() ** (1 / weight) for weight in weights]
    return [item for _, item in sorted(zip(keys, items, strict=True), key=lambda pair: -pair[0])]
