"""The storage recorder on plain CPU tensors: what begins, what ends, and when."""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from autotune.worker.recorder import Recorder  # noqa: E402
from autotune.worker.trace_file import Events  # noqa: E402

KIB = 1024


def record(script: Callable[[], object]) -> tuple[list[tuple[str, int]], Events]:
    """Events of a function as (action, KiB), in order; what it returns lives to the end."""
    recorder = Recorder(lambda tensor: True)
    with recorder:
        kept = script()
    events = recorder.events([])
    del kept
    names = {0: "alloc", 2: "free"}
    return [(names[a], s // KIB) for a, s in zip(events.action, events.size, strict=True)], events


def block(kib: int) -> object:
    return torch.empty(kib * KIB, dtype=torch.uint8)


def test_a_tensor_begins_with_its_bytes_and_ends_when_nothing_refers_to_it() -> None:
    def script() -> object:
        first = block(4)
        del first
        return block(8)

    assert record(script)[0] == [("alloc", 4), ("free", 4), ("alloc", 8)]


def test_a_free_names_the_address_of_its_allocation_and_no_address_is_used_twice() -> None:
    def script() -> None:
        for _ in range(3):
            block(4)

    _, events = record(script)
    assert events.addr[0::2] == events.addr[1::2]
    assert len(set(events.addr)) == 3


def test_views_share_a_storage_and_keep_it_alive() -> None:
    def script() -> object:
        whole = block(4)
        part = whole[:10].view(2, 5).t()
        del whole
        block(8)
        return part

    assert record(script)[0] == [("alloc", 4), ("alloc", 8), ("free", 8)]


def test_an_operation_in_place_allocates_nothing() -> None:
    assert record(lambda: block(4).add_(1).mul_(2))[0] == [("alloc", 4)]


def test_a_resized_storage_is_a_new_allocation() -> None:
    assert record(lambda: block(4).resize_(8 * KIB))[0] == [("alloc", 4), ("free", 4), ("alloc", 8)]


def test_an_empty_tensor_is_no_allocation() -> None:
    assert record(lambda: block(0))[0] == []


def test_what_autograd_saves_lives_until_backward() -> None:
    def script() -> object:
        weight = torch.ones(256, 256, requires_grad=True)  # 256 KiB
        hidden = (weight * 1.0).exp()  # exp saves its result; the product ends at once
        loss = hidden.sum()
        del hidden
        loss.backward()
        return weight

    steps = [event for event in record(script)[0] if event[1] == 256]
    assert steps[:4] == [("alloc", 256), ("alloc", 256), ("alloc", 256), ("free", 256)]
    live = [sum(1 if action == "alloc" else -1 for action, _ in steps[:n]) for n in range(len(steps) + 1)]
    assert max(live) > 2 and live[-1] == 2  # weight and its gradient


def test_lists_of_tensors_are_looked_into() -> None:
    found = record(lambda: torch._foreach_add([block(4), block(8)], 1))[0]
    assert sorted(event for event in found if event[0] == "alloc") == [
        ("alloc", 4), ("alloc", 4), ("alloc", 8), ("alloc", 8),
    ]  # fmt: skip


def test_a_tensor_made_outside_is_noted_when_first_used() -> None:
    outside = block(4)
    recorder = Recorder(lambda tensor: True)
    with recorder:
        outside.view(-1)
    assert list(recorder.events([]).size) == [4 * KIB]


def test_tensors_that_do_not_count_are_left_out() -> None:
    recorder = Recorder(lambda tensor: tensor.dtype == torch.uint8)
    with recorder:
        kept = block(4), torch.empty(100)
    assert list(recorder.events([]).size) == [4 * KIB]
    del kept


def test_if_the_script_placed_anything_only_that_counts() -> None:
    recorder = Recorder(lambda tensor: True)
    with recorder:
        host, device = block(4), block(8)
        recorder.place(device)
    assert list(recorder.events([]).size) == [8 * KIB]
    assert recorder.is_placed(device) and not recorder.is_placed(host)


def test_the_recorder_keeps_no_tensor_alive() -> None:
    recorder = Recorder(lambda tensor: True)
    with recorder:
        for _ in range(100):
            block(4)
    assert recorder._live == {}


def test_step_ends_are_counted_in_the_events_that_are_kept() -> None:
    recorder = Recorder(lambda tensor: tensor.dtype == torch.uint8)
    positions = []
    with recorder:
        for _ in range(2):
            block(4)
            torch.empty(100)
            positions.append(recorder.position)
    assert recorder.events(positions).step_ends == [2, 4]
