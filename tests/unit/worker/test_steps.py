"""Where a step ends, with a made-up device and optimizers that only need a name."""

from __future__ import annotations

from typing import Any

from autotune.worker.steps import Steps


class Device:
    """Notes how often it was synchronised."""

    def __init__(self) -> None:
        self.synchronized = 0
        self.capturing = False

    def is_capturing(self) -> bool:
        return self.capturing

    def synchronize(self) -> None:
        self.synchronized += 1

    def boundary(self) -> dict[str, int]:
        return {"reserved_bytes": self.synchronized}


class Optimizer:
    """Something that steps."""


def steps_of(device: Device) -> tuple[Steps, list[Any]]:
    ended: list[Any] = []
    return Steps(device, ended.append), ended


def step(steps: Steps, optimizer: Optimizer) -> None:
    steps._optimizer_stepped(optimizer, (), {})


def test_each_step_of_the_first_optimizer_ends_a_step_after_synchronising() -> None:
    device = Device()
    steps, ended = steps_of(device)
    first, second = Optimizer(), Optimizer()
    for optimizer in (first, second, first, second, first):
        step(steps, optimizer)
    assert [boundary["reserved_bytes"] for boundary in ended] == [1, 2, 3]
    assert all(boundary["seconds"] >= 0 for boundary in ended)


def test_the_next_optimizer_takes_over_when_the_first_is_gone() -> None:
    steps, ended = steps_of(Device())
    first = Optimizer()
    step(steps, first)
    del first
    step(steps, Optimizer())
    assert len(ended) == 2


def test_marks_replace_what_optimizers_ended_before() -> None:
    steps, ended = steps_of(Device())
    optimizer = Optimizer()
    step(steps, optimizer)
    steps.mark()
    step(steps, optimizer)
    steps.mark()
    assert len(steps.boundaries) == 2 and len(ended) == 3


def test_nothing_ends_while_a_cuda_graph_is_captured() -> None:
    device = Device()
    steps, ended = steps_of(device)
    device.capturing = True
    step(steps, Optimizer())
    assert ended == []
