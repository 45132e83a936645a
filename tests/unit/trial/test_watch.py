"""What went on during a trial is seen from outside."""

from __future__ import annotations

import time

import pytest

from autotune.trial import watch as watching
from autotune.trial.gpu import SharedGpu
from autotune.trial.watch import Watch


class Gpu(SharedGpu):
    def __init__(self) -> None:
        super().__init__("0")
        self.answers = [("power cap",), (), ("temperature", "power cap")]

    def throttled(self) -> tuple[str, ...]:
        return self.answers.pop() if self.answers else ()


def test_each_reason_is_kept_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "EVERY_SECONDS", 0.001)
    gpu = Gpu()
    with Watch(gpu) as watch:
        while gpu.answers:
            time.sleep(0.001)
    assert watch.throttled == ("temperature", "power cap")
    assert watch.cpu_busy is not None
    assert 0 <= watch.cpu_busy <= 1


def test_without_a_driver_nothing_is_known_and_nothing_fails() -> None:
    assert SharedGpu("0").throttled() == ()
