"""Screening: thousands of settings replayed before the first trial, so that trials go where they pay.

Single options and pairs first, then random combinations, then rounds of neighbours around the best found so
far. Deterministic: the same trace, space, limit and seed give the same answer on any machine, because the
budget counts replayed operations and not seconds.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from autotune.settings import AllocatorSettings
from autotune.study.evenly import evenly
from autotune.study.moves import Moves
from autotune.study.predict import Prediction, Predictor
from autotune.study.space import LARGE_SEGMENT_SIZES_MB, SearchSpace

MOST_SETTINGS = 3000
"""Settings that a screening replays."""
MOST_OPERATIONS = 1_000_000_000
"""Operations that a screening replays, about a minute on two cores; a long trace gets fewer settings."""
FEWEST_SETTINGS = 200

PAIRS_SHARE, RANDOM_SHARE = 0.25, 0.2
"""Shares of the budget before neighbours are looked at."""
ROUND = 96
"""Settings replayed between two looks at what is best."""
ELITES = 8
"""Behaviours that are best, and as many along the front, whose neighbours are tried."""
FRUITLESS_DRAWS = 20
"""Draws without anything new, for each one wanted, after which a neighbourhood counts as known."""

Heard = Callable[[int, int], None]
"""Told the number of settings replayed so far, and how many there may be."""


@dataclass(frozen=True, kw_only=True)
class Screening:
    """What a screening found."""

    num_settings: int
    """Settings replayed."""
    classes: tuple[Prediction, ...]
    """One prediction a behaviour, each with the simplest settings that have it, in order of discovery."""

    @property
    def completing(self) -> tuple[Prediction, ...]:
        """The behaviours that fit into the memory."""
        return tuple(found for found in self.classes if found.completes)


def budget(num_operations: int) -> int:
    """How many settings are replayed on a trace of so many operations."""
    return max(FEWEST_SETTINGS, min(MOST_SETTINGS, MOST_OPERATIONS // max(num_operations, 1)))


def screen(
    predictor: Predictor,
    space: SearchSpace,
    *,
    anchors: Iterable[AllocatorSettings] = (),
    seed: int = 0,
    most: int | None = None,
    heard: Heard = lambda done, most: None,
) -> Screening:
    """Replay many settings, and sort them by behaviour.

    Args:
        predictor: replays.
        space: what may be used.
        anchors: settings to replay in any case, allowed by the space or not.
        seed: of the random choices.
        most: settings to replay; None = `budget`.
        heard: told of the progress.
    """
    most = budget(predictor.trace.num_operations) if most is None else most
    search = _Search(predictor, most, heard)
    moves, chance = Moves.on(predictor.trace, space), random.Random(seed)
    search.replay([*anchors, *moves.singles()])
    search.replay(_sampled(moves.pairs(), round(PAIRS_SHARE * most), chance))
    search.replay(_drawn(lambda: moves.drawn(chance), search.known, round(RANDOM_SHARE * most)))
    while search.left > 0 or search.extended():
        elites = elite(search.classes, limited=space.limited)
        near = _drawn(lambda: _step(moves, chance.choice(elites), chance), search.known, ROUND)  # noqa: B023
        if not near:
            break
        search.replay(near)
    return Screening(num_settings=len(search.known), classes=tuple(search.classes))


def elite(classes: Sequence[Prediction], *, limited: bool = False) -> list[Prediction]:
    """The settings whose neighbours are worth a look.

    Those with the least memory, under a memory limit the fastest, and some along the front of memory and
    driver time; where nothing completes, those that come furthest.
    """
    completing = simplest_points([found for found in classes if found.completes])
    if not completing:
        return _furthest(classes)
    members = plane(completing)
    best = sorted(completing, key=lambda found: found.seconds) if limited else completing
    chosen = (*best[:ELITES], *evenly(members, ELITES))
    return list({found.behaviour: found for found in chosen}.values())


def _furthest(classes: Sequence[Prediction]) -> list[Prediction]:
    """Those that come nearest to completing: ELITES with expandable segments, and as many without.

    Each kind among its own: pages of an expandable segment are counted after the fact, so that there all
    operations run, in too much memory; without, the program ends at the operation that does not fit.
    """
    kinds: dict[bool, list[Prediction]] = {True: [], False: []}
    for one in sorted(classes, key=lambda found: (-(found.operations or 0), found.memory)):
        kinds[bool(one.settings.expandable_segments)].append(one)
    return [one for kind in kinds.values() for one in kind[:ELITES]]


def simplest_points(found: Sequence[Prediction]) -> list[Prediction]:
    """One prediction for each pair of memory and driver time, ascending, with the simplest settings."""
    points: dict[tuple[int, float], Prediction] = {}
    for one in sorted(found, key=lambda one: one.simplicity):
        points.setdefault((one.memory, one.seconds), one)
    return [points[point] for point in sorted(points)]


def plane(found: Sequence[Prediction]) -> list[Prediction]:
    """The predictions that no other beats in memory and driver time at once, ascending in memory."""
    members: list[Prediction] = []
    for one in simplest_points(found):
        if not members or one.seconds < members[-1].seconds:
            members.append(one)
    return members


class _Search:
    """The predictions so far, by behaviour."""

    def __init__(self, predictor: Predictor, most: int, heard: Heard) -> None:
        self._predictor = predictor
        self._most = most
        self._heard = heard
        self._extended = False
        self._simplest: dict[str, Prediction] = {}
        self.known: set[str] = set()
        """Strings replayed."""

    @property
    def left(self) -> int:
        """Settings that may still be replayed."""
        return self._most - len(self.known)

    @property
    def classes(self) -> list[Prediction]:
        """One prediction a behaviour, in order of discovery."""
        return list(self._simplest.values())

    def extended(self) -> bool:
        """Once, where hardly anything fits, the budget is doubled: most replays end early there."""
        classes = self._simplest.values()
        if self._extended or 10 * sum(found.completes for found in classes) > len(classes):
            return False
        self._extended, self._most = True, 2 * self._most
        return True

    def replay(self, settings: Iterable[AllocatorSettings]) -> None:
        """Replay those that are new, as far as the budget goes."""
        new = {str(one): one for one in settings if str(one) not in self.known}
        chosen = list(itertools.islice(new.values(), max(self.left, 0)))
        before = len(self.known)
        found = self._predictor.predict_many(chosen, lambda done: self._heard(before + done, self._most))
        self.known.update(str(one) for one in chosen)
        for one in found:
            known = self._simplest.get(one.behaviour)
            if known is None or one.simplicity < known.simplicity:
                self._simplest[one.behaviour] = one


def _step(moves: Moves, start: Prediction, chance: random.Random) -> AllocatorSettings:
    """One step, and now and then a second one: some gains need two."""
    settings = moves.neighbour(start.settings, chance)
    return moves.neighbour(settings, chance) if chance.random() < 0.4 else settings


def _sampled(
    settings: Iterator[AllocatorSettings], most: int, chance: random.Random
) -> list[AllocatorSettings]:
    """As many as wanted, of every combination of options equally many as far as it has them.

    Else a pair with few values, such as garbage collection and segment size, which can be the best one under
    a memory limit, would hardly be looked at for the hundreds of split sizes with roundup lists. A segment as
    large as the program counts as an option of its own.
    """
    kinds: dict[tuple[tuple[str, ...], bool], list[AllocatorSettings]] = {}
    for one in {str(each): each for each in settings}.values():
        arena = (one.large_segment_size_mb or 0) > LARGE_SEGMENT_SIZES_MB[-1]
        kinds.setdefault((one.options, arena), []).append(one)
    for members in kinds.values():
        chance.shuffle(members)
    turns = itertools.chain.from_iterable(itertools.zip_longest(*kinds.values()))
    return list(itertools.islice((one for one in turns if one is not None), most))


def _drawn(draw: Callable[[], AllocatorSettings], known: set[str], most: int) -> list[AllocatorSettings]:
    """As many new settings as wanted, or as chance finds."""
    found: dict[str, AllocatorSettings] = {}
    for _ in range(FRUITLESS_DRAWS * most):
        if len(found) == most:
            break
        settings = draw()
        if str(settings) not in known:
            found.setdefault(str(settings), settings)
    return list(found.values())
