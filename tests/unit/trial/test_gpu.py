"""The lock that keeps two trials off one GPU."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from autotune.trial.gpu import SharedGpu, driver_version


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_a_second_trial_says_that_it_waits_and_then_goes_on() -> None:
    said: list[str] = []
    order: list[str] = []
    waiting = threading.Event()

    def second() -> None:
        def say(sentence: str) -> None:
            said.append(sentence)
            waiting.set()

        with SharedGpu("0", "ab-cd").alone(say):
            order.append("second")

    with SharedGpu("0", "ab-cd").alone(said.append):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(10)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert len(said) == 1 and "in use by another autotune" in said[0]


def test_other_gpus_are_not_waited_for() -> None:
    said: list[str] = []
    with SharedGpu("0").alone(said.append), SharedGpu("1").alone(said.append):
        assert said == []


def test_a_gpu_has_one_lock_however_its_uuid_is_written() -> None:
    assert SharedGpu("0", "ab-cd").lock_file == SharedGpu("3", "GPU-ab-cd").lock_file
    assert SharedGpu("0").lock_file != SharedGpu("1").lock_file


def test_without_a_driver_there_are_no_tenants_and_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    import pynvml

    def fail() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", fail)
    assert SharedGpu("0").tenants() == ()
    assert driver_version() is None
