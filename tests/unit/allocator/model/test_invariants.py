"""The invariants hold for any program; and a damaged state does not pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.allocator.model import ReplaySession, prepare
from autotune.allocator.model import heap as h
from autotune.allocator.model.invariants import check_invariants
from autotune.settings import AllocatorSettings
from tests.traces import GIB, MIB, Program, run

SIZES = st.one_of(
    st.sampled_from([1, 512, MIB, MIB + 1, 5 * MIB, 10 * MIB, 20 * MIB, 21 * MIB, 64 * MIB, 70 * MIB]),
    st.integers(1, 40 * MIB),
)
STEPS = st.lists(
    st.tuples(SIZES, st.integers(0, 1), st.integers(0, 2), st.integers(0, 30)), min_size=1, max_size=40
)
SETTINGS = st.sampled_from([
    "", "expandable_segments:True", "max_split_size_mb:21", "garbage_collection_threshold:0.3",
    "expandable_segments:True,max_split_size_mb:64", "roundup_power2_divisions:4,large_segment_size_mb:32",
])  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(STEPS, SETTINGS, st.sampled_from([(2, 11), (2, 12), (2, 14)]), st.booleans())
def test_they_hold_after_every_row(
    steps: list[tuple[int, int, int, int]], options: str, torch: tuple[int, int], limited: bool
) -> None:
    program, live = Program(), []
    for size, stream, pool, victim in steps:
        live.append(program.alloc(size, stream=stream, pool=max(0, pool - 1)))
        if victim < len(live):
            program.free(live.pop(victim))
    run(program, options, torch=torch, memory_limit=150 * MIB if limited else None, device_total=GIB // 4)


def session() -> ReplaySession:
    """Live, free and (in the second half of the pages) unmapped blocks."""
    program = Program()
    first, _, third = program.alloc(25 * MIB), program.alloc(5 * MIB), program.alloc(8 * MIB)
    program.free(first, third)
    replay = ReplaySession(
        prepare(program.trace()), AllocatorSettings(expandable_segments=True),
        memory_limit=None, device_total=GIB, torch_version=(2, 14),
    )  # fmt: skip
    replay.advance()
    return replay


def block(replay: ReplaySession, kind: int) -> int:
    return next(each for each in replay.blocks() if replay.heap[each + h.KIND] == kind)


def forget_a_free_block(replay: ReplaySession) -> None:
    replay.heap[replay.heap[block(replay, h.FREE) + h.SET] + h.COUNT] -= 1


def swap_two_entries(replay: ReplaySession) -> None:
    first = replay.heap[replay.heap[block(replay, h.FREE) + h.SET] + h.FIRST]
    entries = replay.heap[first : first + 2 * h.ENTRY_FIELDS].reshape(2, -1)
    entries[:] = entries[::-1].copy()


def leave_a_gap(replay: ReplaySession) -> None:
    replay.heap[block(replay, h.LIVE) + h.SIZE] -= 512


def break_a_link(replay: ReplaySession) -> None:
    replay.heap[block(replay, h.LIVE) + h.PREVIOUS] = block(replay, h.UNMAPPED)


def leave_neighbours_unmerged(replay: ReplaySession) -> None:
    replay.heap[block(replay, h.LIVE) + h.KIND] = h.FREE


def miscount_reserved(replay: ReplaySession) -> None:
    replay.heap[h.RESERVED] += 2 * MIB


def miscount_requested(replay: ReplaySession) -> None:
    replay.heap[h.REQUESTED] += 1


def serve_a_freed_block(replay: ReplaySession) -> None:
    replay.slots[0] = block(replay, h.FREE)


@pytest.mark.parametrize(
    "damage",
    [
        forget_a_free_block, swap_two_entries, leave_a_gap, break_a_link, leave_neighbours_unmerged,
        miscount_reserved, miscount_requested, serve_a_freed_block,
    ],
)  # fmt: skip
def test_a_damaged_state_is_noticed(damage: Callable[[ReplaySession], None]) -> None:
    replay = session()
    check_invariants(replay)
    damage(replay)
    with pytest.raises(AssertionError):
        check_invariants(replay)
