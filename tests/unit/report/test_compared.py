"""Two recordings side by side: the numbers, and how they are shown."""

from __future__ import annotations

from autotune.report.compared import Peak, compare, document, peak_requested, print_comparison
from autotune.trace import Trace
from tests.terminal import printed
from tests.traces import MIB, Program


def traces() -> tuple[Trace, Trace]:
    """The same three blocks; in the second the first lives longer, and operators are not known."""
    first, second = Program(), Program()
    block, small = first.alloc(3 * MIB), first.alloc(512)
    first.free(block)
    first.free(small, first.alloc(20 * MIB))
    blocks = [second.alloc(size) for size in (3 * MIB, 512, 20 * MIB)]
    second.free(*blocks)
    known = {"aten::mm": (2, 23 * MIB), "aten::add": (1, 512)}
    return first.trace(estimated=True, operators=known), second.trace()


def test_live_peaks_differ_where_lifetimes_do_and_sizes_are_counted_by_class() -> None:
    first, second = traces()
    assert (peak_requested(first), peak_requested(second)) == (20 * MIB + 512, 23 * MIB + 512)
    found = document(compare((first, second), ("a.npz", "b.npz"), []))
    assert found["peak_requested_bytes"] == [20 * MIB + 512, 23 * MIB + 512]
    counts = [one["allocations"] for one in found["size_classes"]]
    assert counts == [[1, 1], [1, 1], [1, 1], [0, 0], [0, 0]]
    assert found["estimated"] == [True, False]


def test_operators_are_shown_where_a_recording_knows_them_the_largest_first() -> None:
    found = document(compare(traces(), ("a.npz", "b.npz"), []))
    assert [one["name"] for one in found["operators"]] == ["aten::mm", "aten::add"]
    assert found["operators"][0]["requested_bytes"] == [23 * MIB, None]


def test_it_says_which_recording_is_an_estimate_and_fits_80_columns() -> None:
    peaks = [Peak(settings="expandable_segments:True", reserved_bytes=(40 * MIB, 44 * MIB))]
    comparison = compare(traces(), ("a.npz", "b.npz"), peaks)
    shown = printed(lambda console: print_comparison(comparison, console))
    assert "a.npz: ESTIMATED, recorded without a GPU" in shown and "b.npz: recorded on a GPU" in shown
    assert "+10.0 %" in shown and "aten::mm" in shown
    assert max(map(len, shown.splitlines())) <= 80
