"""What is refused before any worker starts, each with one sentence."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.errors import UsageError
from autotune.trial import preflight as module
from autotune.trial.facts import Facts, probe, visible_device
from autotune.trial.preflight import preflight
from autotune.trial.runner import Job

FACTS = Facts(python=sys.executable, python_version="3.11.7", torch="2.11.0")


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.setattr(module, "probe", lambda python, *, device: FACTS)
    script = tmp_path / "train.py"
    script.write_text("import torch\n")
    return Job(script=script, directory=tmp_path / "runs")


def refused(job: Job) -> str:
    with pytest.raises(UsageError) as error:
        preflight(job)
    sentence = str(error.value)
    assert "\n" not in sentence and sentence.endswith(".")
    return sentence


def test_a_sound_job_passes_with_the_facts(job: Job) -> None:
    assert preflight(job) is FACTS
    assert not job.directory.exists()


def test_a_missing_script(job: Job) -> None:
    assert "no script nowhere.py" in refused(replace(job, script=Path("nowhere.py")))


def test_a_directory_in_place_of_a_script(job: Job, tmp_path: Path) -> None:
    assert "is a directory" in refused(replace(job, script=tmp_path))


def test_a_syntax_error_with_its_line(job: Job) -> None:
    job.script.write_text("x = 1\ndef f(:\n")
    assert "syntax error" in refused(job) and "line 2" in refused(job)


def test_a_script_that_is_no_text(job: Job) -> None:
    job.script.write_bytes(b"\x00\xff" * 10)
    assert "syntax error" in refused(job)


def test_a_log_folder_that_is_a_file(job: Job, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "log folder" in refused(replace(job, directory=tmp_path / "file" / "runs"))


def test_an_interpreter_without_torch(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    without = replace(FACTS, torch=None, why_not="torch cannot be imported (No module named 'torch')")
    monkeypatch.setattr(module, "probe", lambda python, *, device: without)
    assert "torch cannot be imported" in refused(job) and "--python" in refused(job)


def test_an_interpreter_that_is_none(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert "cannot be run" in refused(replace(job, python="/nowhere/python"))


@pytest.mark.parametrize("change", [{"measured_steps": 0}, {"warmup_steps": -1}, {"timeout_seconds": 0}])
def test_numbers_that_make_no_trial(job: Job, change: dict[str, int]) -> None:
    assert refused(replace(job, **change))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("listed", "device", "name"), [(None, 1, "1"), ("2,3", 1, "3"), ("GPU-ab", 0, "GPU-ab"), ("", 0, "")]
)
def test_a_device_is_counted_among_the_visible_ones(
    monkeypatch: pytest.MonkeyPatch, listed: str | None, device: int, name: str
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if listed is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    assert visible_device(device) == name


def test_a_device_that_is_not_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    with pytest.raises(UsageError, match="GPU 2 is not visible"):
        visible_device(2)


@pytest.mark.parametrize(
    "printed",
    ["5", "[]", "null", "{}", '{"usable": 1}', '{"usable": true, "torch": 5}',
     '{"usable": false, "torch": null, "more": 1}', "\\xff\\xfe", ""],
)  # fmt: skip
def test_an_interpreter_that_answers_something_else_is_refused(tmp_path: Path, printed: str) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nprintf '{printed}'\n")
    python.chmod(0o755)
    with pytest.raises(UsageError, match="could not be asked for its torch and GPU"):
        probe(str(python))
