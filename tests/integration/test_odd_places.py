"""Targets that are no ordinary files, numbers that nobody means, databases in the way: one sentence each."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
GNN = str(TESTS / "data" / "gnn.npz")
SCRIPT = str(TESTS / "scripts" / "trains.py")


def autotune(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "autotune", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def refused(done: subprocess.CompletedProcess[str], status: int = 2) -> str:
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("autotune: ")
    return done.stderr


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small study."""
    folder = tmp_path_factory.mktemp("study")
    done = autotune("run", "--trace", GNN, "--trials", "2", "--engine", "off", folder=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_a_recording_takes_no_place_of_a_pipe_a_link_or_a_name_too_long(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("elsewhere")
    for name in ("pipe", "link", "x" * 300):
        words = ("record", "--script", SCRIPT, "-o", name, "--force")
        assert "cannot be written" in refused(autotune(*words, folder=tmp_path))
    assert (tmp_path / "pipe").is_fifo() and (tmp_path / "link").is_symlink()


@pytest.mark.parametrize(
    "option", ["--timeout=inf", "--timeout=nan", "--seed=-1", "--steps=99999999999999999999", "--device=-1"]
)
def test_record_refuses_numbers_that_nobody_means(tmp_path: Path, option: str) -> None:
    refused(autotune("record", "--script", SCRIPT, "-o", "t.npz", option, folder=tmp_path))
    assert not (tmp_path / "t.npz").exists()


def test_a_script_name_that_is_too_long_is_refused(tmp_path: Path) -> None:
    refused(autotune("run", "--script", "x" * 300 + ".py", "--study", "q", folder=tmp_path))


def test_a_database_is_not_exported_over(study: Path) -> None:
    before = (study / "autotune.db").read_bytes()
    assert "is a database" in refused(autotune("export", "-o", "autotune.db", "--force", folder=study))
    assert (study / "autotune.db").read_bytes() == before


def test_a_page_for_a_pipe_does_not_wait_to_read_from_it(study: Path) -> None:
    read, write = os.pipe()
    command = [sys.executable, "-m", "autotune", "report", "--html", f"/dev/fd/{write}"]
    with subprocess.Popen(command, cwd=study, pass_fds=[write], stdout=subprocess.PIPE) as process:
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            page = pipe.read()
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert page.startswith(b"<!DOCTYPE html>")


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs /dev/full")
def test_a_full_disk_under_a_page_is_work_that_failed(study: Path) -> None:
    assert "No space left" in refused(autotune("report", "--html", "/dev/full", folder=study), 1)


def test_a_sweep_needs_no_database(tmp_path: Path) -> None:
    (tmp_path / "autotune.db").write_text("somebody's")
    words = ("sweep", "max_split_size_mb", "--values", "64", "--trace", GNN)
    assert autotune(*words, folder=tmp_path).returncode == 0


def test_a_database_that_is_named_has_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "other.db").write_text("somebody's")
    words = ("fit", "--script", SCRIPT, "--arg", "{}", "--range", "1:2", "--storage", "sqlite:///other.db")
    assert "is not a SQLite database" in refused(autotune(*words, folder=tmp_path))


def test_rounds_without_end_a_screenings_name_and_an_endless_file_are_refused(study: Path) -> None:
    refused(autotune("verify", "--rounds", "99999999999999999999", folder=study))
    refused(autotune("run", "--trace", GNN, "--study", "gnn.screen", folder=study))
    refused(autotune("run", "--config", "/dev/zero", folder=study))
    (study / "long.toml").write_text("timeout = 1" + "0" * 400)
    refused(autotune("run", "--config", "long.toml", "--trace", GNN, folder=study))
    with sqlite3.connect(study / "autotune.db") as connection:
        assert connection.execute("SELECT count(*) FROM studies").fetchone()[0] == 1


def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    code = "import os, sys; os.rmdir(os.getcwd()); from autotune.cli import main; sys.exit(main(['doctor']))"
    done = subprocess.run([sys.executable, "-c", code], cwd=gone, capture_output=True, text=True)
    assert "no longer exists" in refused(done)
