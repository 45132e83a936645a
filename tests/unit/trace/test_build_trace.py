"""From events to a Trace: whose block a free gives back, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import TraceError
from autotune.trace.events import Events, Live, build_trace
from autotune.trace.trace import Recording, Trace
from autotune.trace.unpickle import ACTIONS

Row = tuple[str, int, int]
MIB = 1 << 20


def column(values: object) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(values, np.uint64)


def events(
    *rows: Row,
    streams: tuple[int, ...] = (),
    pools: tuple[int, ...] = (),
    live: Live | None = None,
    step_ends: tuple[int, ...] = (),
    reserved_before: int | None = None,
) -> Events:
    """Events from (action, address, size) rows, all on one stream in the default pool unless said."""
    return Events(
        action=np.array([ACTIONS.index(action) for action, _, _ in rows], np.uint8),
        addr=column([addr for _, addr, _ in rows]),
        size=column([size for _, _, size in rows]),
        stream=column(streams or [7] * len(rows)),
        pool=column(pools or [0] * len(rows)),
        time_us=column(range(100, 100 + len(rows))),
        live=live or Live(),
        step_ends=step_ends,
        reserved_before=reserved_before,
    )


def trace(recorded: Events, *, partial: bool = False) -> Trace:
    return build_trace(recorded, Recording(), partial=partial)


def test_an_address_used_twice_is_two_blocks() -> None:
    found = trace(events(("alloc", 64, 10), ("free_completed", 64, 10), ("alloc", 64, 30), ("alloc", 96, 5)))
    assert found.block.tolist() == [0, 0, 1, 2]
    assert found.size.tolist() == [10, 10, 30, 5]
    assert found.is_alloc.tolist() == [True, False, True, True]
    assert found.time_us.tolist() == [100, 101, 102, 103]


def test_a_free_counts_where_it_completed_not_where_it_was_asked_for() -> None:
    rows = (("alloc", 64, 10), ("free_requested", 64, 10), ("alloc", 96, 5), ("free_completed", 64, 10))
    assert trace(events(*rows)).block.tolist() == [0, 1, 0]


def test_requested_frees_stand_in_when_completed_ones_were_not_recorded() -> None:
    assert trace(events(("alloc", 64, 10), ("free_requested", 64, 10))).block.tolist() == [0, 0]


def test_streams_and_pools_are_the_blocks_own_and_numbered_by_appearance() -> None:
    rows = (("alloc", 1, 5), ("alloc", 2, 5), ("free_completed", 2, 5))
    found = trace(events(*rows, streams=(9, 3, 9), pools=(4, 0, 4)))
    assert found.stream.tolist() == [0, 1, 1]
    assert found.pool.tolist() == [1, 0, 0]


def test_the_default_pool_is_0_even_when_only_private_pools_are_used() -> None:
    assert trace(events(("alloc", 1, 5), pools=(4,))).pool.tolist() == [1]


def test_an_allocation_of_no_bytes_never_reaches_the_allocator() -> None:
    rows = (("alloc", 1, 0), ("free_completed", 1, 0), ("alloc", 2, 5))
    found = trace(events(*rows, step_ends=(2, 3)))
    assert (found.block.tolist(), found.step_ends) == ([0], (0, 1))


def test_steps_end_after_the_rows_before_them() -> None:
    rows = (("segment_alloc", 0, 99), ("alloc", 1, 5), ("free_requested", 1, 5), ("free_completed", 1, 5))
    assert trace(events(*rows, step_ends=(2, 3, 4))).step_ends == (1, 1, 2)


def test_blocks_alive_before_come_first_and_count_in_the_steps() -> None:
    live = Live(addr=column([100, 900]), size=column([1, 9]), stream=column([7, 7]), pool=column([0, 0]))
    rows = (("alloc", 64, 10), ("free_completed", 900, 9))
    found = trace(events(*rows, live=live, step_ends=(1, 2)))
    assert found.num_preexisting == 2
    assert found.block.tolist() == [0, 1, 2, 1]
    assert found.size.tolist() == [1, 9, 10, 9]
    assert found.step_ends == (3, 4)
    assert "2 blocks were alive before" in found.recording.notes[0]


def test_frees_without_an_allocation_are_refused_with_their_number_and_the_way_out() -> None:
    with pytest.raises(TraceError, match=r"2 of its frees have no allocation.*max_entries.*--partial"):
        trace(events(("free_completed", 64, 10), ("free_completed", 32, 1), ("alloc", 64, 20)))


def test_a_trace_without_its_beginning_can_be_accepted_with_sizes_from_the_frees() -> None:
    rows = (("free_completed", 64, 10), ("alloc", 64, 20), ("free_completed", 32, 4))
    found = trace(events(*rows), partial=True)
    assert found.num_preexisting == 2
    assert found.size.tolist() == [4, 10, 10, 20, 4]  # those alive before, in address order, then the rows
    assert found.block.tolist() == [0, 1, 1, 2, 0]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ((("alloc", 1, 5), ("alloc", 1, 5)), "1 allocations at addresses in use"),
        ((("alloc", 1, 5), ("free_completed", 1, 5), ("free_completed", 1, 5)), "1 frees of memory that"),
        ((("alloc", 1, 1 << 60),), "which no GPU could serve"),
        ((("segment_alloc", 1, MIB),), "no allocations"),
        ((), "no allocations"),
    ],
)  # fmt: skip
def test_impossible_and_empty_histories_are_refused(rows: tuple[Row, ...], sentence: str) -> None:
    with pytest.raises(TraceError, match=sentence):
        trace(events(*rows))


def test_a_fatal_out_of_memory_is_the_last_row_and_what_unwinds_after_it_is_not_replayed() -> None:
    rows = (("alloc", 1, 5), ("oom", 300, 800), ("free_completed", 1, 5), ("segment_free", 0, 9))
    found = trace(events(*rows, streams=(7, 8, 7, 7)))
    assert found.oom_size == 800
    assert found.size.tolist() == [5, 800]
    assert found.stream.tolist() == [0, 1]
    assert found.recording.observed["device_free_bytes_at_oom"] == 300
    assert found.recording.observed["peak_requested_bytes"] == 5  # the request was never served


def test_an_out_of_memory_that_the_script_survived_is_left_out_and_said() -> None:
    found = trace(events(("alloc", 1, 5), ("oom", 0, 800), ("alloc", 2, 5)))
    assert (found.oom_size, found.size.tolist()) == (None, [5, 5])
    assert "ran out of memory 1 time and went on" in found.recording.notes[0]


def test_a_survived_and_a_fatal_out_of_memory_are_told_apart() -> None:
    found = trace(events(("oom", 0, 900), ("alloc", 1, 5), ("oom", 0, 800)))
    assert (found.oom_size, found.size.tolist()) == (800, [5, 800])


def test_segment_events_tell_what_the_recorded_allocator_took() -> None:
    rows = (
        ("segment_alloc", 0, 2 * MIB), ("alloc", 64, 10), ("segment_free", 0, 2 * MIB),
        ("segment_map", 1 << 30, 20 * MIB), ("segment_unmap", 1 << 30, 20 * MIB),
    )  # fmt: skip
    assert dict(trace(events(*rows)).recording.observed) == {
        "peak_reserved_bytes": 20 * MIB,
        "reserved_bytes_at_end": 0,
        "num_device_alloc": 2,
        "num_device_free": 2,
        "peak_requested_bytes": 10,
    }


def test_memory_reserved_before_the_recording_counts_in_the_peak_and_device_calls_are_not_claimed() -> None:
    live = Live(addr=column([100]), size=column([1]), stream=column([7]), pool=column([0]))
    rows = (("segment_alloc", 0, 2 * MIB), ("alloc", 64, 10))
    observed = trace(events(*rows, live=live, reserved_before=30 * MIB)).recording.observed
    assert observed["peak_reserved_bytes"] == 32 * MIB
    assert "num_device_alloc" not in observed


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 1 << 30)), min_size=1))
def test_every_free_belongs_to_the_last_block_at_its_address(script: list[tuple[int, int]]) -> None:
    rows: list[Row] = []
    expected: list[int] = []
    live: dict[int, tuple[int, int]] = {}
    for address, size in script:
        if address in live:
            block, freed = live.pop(address)
            rows.append(("free_completed", address, freed))
            expected.append(block)
        else:
            live[address] = (sum(action == "alloc" for action, _, _ in rows), size)
            rows.append(("alloc", address, size))
            expected.append(live[address][0])
    found = trace(events(*rows))
    assert found.block.tolist() == expected
    assert found.size.tolist() == [size for _, _, size in rows]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 99)), min_size=2), st.data())
def test_whatever_is_cut_off_the_beginning_a_partial_trace_keeps_every_remaining_row(
    script: list[tuple[int, int]], data: st.DataObject
) -> None:
    rows: list[Row] = []
    live: dict[int, int] = {}
    for address, size in script:
        kind = "free_completed" if address in live else "alloc"
        rows.append((kind, address, live.pop(address) if address in live else live.setdefault(address, size)))
    left = rows[data.draw(st.integers(0, len(rows) - 1)) :]
    if all(kind != "alloc" for kind, _, _ in left):
        return  # nothing but frees is no trace
    found = trace(events(*left), partial=True)
    assert found.size[found.num_preexisting :].tolist() == [size for _, _, size in left]
    assert found.is_alloc[: found.num_preexisting].all()


def test_sizes_whose_sum_would_wrap_around_are_refused() -> None:
    rows = [("alloc", 64 * number, 1 << 49) for number in range(1, 1 + (1 << 13))]
    with pytest.raises(TraceError, match="more bytes alive at once"):
        trace(events(*rows))
    assert trace(events(*rows[:-1])).num_operations == len(rows) - 1
