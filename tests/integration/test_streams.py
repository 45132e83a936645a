"""Results that cannot be written, readers that have gone, closed streams, encodings that lack letters."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

TRACE = Path(__file__).parents[1] / "data" / "gan.npz"
COMMANDS = ("report", "report --json", "export", f"replay {shlex.quote(str(TRACE))}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("study")
    command = [
        sys.executable,
        "-m",
        "autotune",
        "run",
        "--trace",
        str(TRACE),
        "--trials",
        "3",
        "--engine",
        "off",
    ]
    subprocess.run([*command, "--engine", "off"], cwd=found, check=True, capture_output=True)
    return found


def shell(folder: Path, text: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    autotune = f"{shlex.quote(sys.executable)} -m autotune"
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {text.format(autotune=autotune)}"],
        cwd=folder, env={**os.environ, **environment}, capture_output=True,
    )  # fmt: skip


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_is_one_sentence_and_work_that_failed(folder: Path, command: str) -> None:
    done = shell(folder, f"{{autotune}} {command} > /dev/full")
    assert done.returncode == 1
    assert done.stderr.decode().endswith("The results cannot be written: No space left on device.\n")
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_reader_that_has_gone_is_no_failure(folder: Path, command: str) -> None:
    done = shell(folder, f"{{autotune}} {command} | true")
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_failure(folder: Path, command: str, closed: str) -> None:
    done = shell(folder, f"{{autotune}} {command} {closed}")
    assert (done.returncode, done.stderr) == (0, done.stderr.replace(b"Traceback", b""))


@pytest.mark.parametrize("encoding", ["ascii", "latin1"])
@pytest.mark.parametrize("command", COMMANDS)
def test_letters_that_an_encoding_lacks_are_replaced(folder: Path, command: str, encoding: str) -> None:
    done = shell(folder, f"{{autotune}} {command}", PYTHONIOENCODING=encoding)
    assert done.returncode == 0
    assert done.stdout
    assert b"Traceback" not in done.stderr
