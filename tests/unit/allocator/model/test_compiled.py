"""Compiling: said once, kept on disk where that is possible, and done without a disk where it is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from autotune.allocator.model.compiled import compile_now, entry_point


def test_the_user_is_told_once_that_something_is_compiled(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autotune.allocator.model.compiled._Announcement.told", False)
    compile_now(numba.njit(lambda value: 2 * value), (1,))
    compile_now(numba.njit(lambda value: 3 * value), (1,))
    assert capsys.readouterr().err.count("compiling the allocator model once") == 1
    compile_now(numba.njit(lambda value: value), (1.5,))
    assert capsys.readouterr().err == ""


def test_without_a_folder_to_write_it_compiles_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def njit(**options: object):  # type: ignore[no-untyped-def]
        asked.append(options.get("cache", False))
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr("autotune.allocator.model.compiled._compile", njit)
    entry_point(lambda: None)
    assert asked == [True, False]


def test_a_later_start_reads_the_code_from_disk(tmp_path: Path) -> None:
    """A tiny entry point stands for the model, whose compilation takes too long here."""
    Path(tmp_path, "tiny.py").write_text(
        "from autotune.allocator.model.compiled import compile_now, entry_point\n"
        "double = entry_point(lambda number: 2 * number)\n"
        "compile_now(double, (1,))\n"
        "print(double(21))\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    runs = [
        subprocess.run(
            [sys.executable, "-c", "import tiny"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        for _ in range(2)
    ]
    assert [run.stdout for run in runs] == ["42\n", "42\n"]
    assert ["compiling" in run.stderr for run in runs] == [True, False]


def test_a_full_disk_costs_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    double = numba.njit(lambda number: 2 * number)

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(double._cache, "save_overload", no_space)
    compile_now(double, (1,))
    assert double(np.int64(21)) == 42
