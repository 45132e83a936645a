"""`autotune dashboard`, served and asked over HTTP."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autotune.cli import main

GNN = str(Path(__file__).parents[1] / "data" / "gnn.npz")


@pytest.fixture(autouse=True)
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--trace", GNN, "--trials", "4", "--engine", "off"]) == 0


@pytest.fixture
def address() -> Iterator[str]:
    """Where a dashboard answers, on a free port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "autotune", "dashboard", "--port", "0"], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    match = re.search(r"http://127\.0\.0\.1:\d+", process.stderr.readline())
    try:
        assert match is not None
        yield match.group()
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
        assert "Traceback" not in process.stderr.read()


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


def test_it_shows_the_study_with_units_note_and_figures(address: str) -> None:
    assert "<html" in get(f"{address}/dashboard/").lower()
    (summary,) = json.loads(get(f"{address}/api/studies"))["study_summaries"]
    detail = json.loads(get(f"{address}/api/studies/{summary['study_id']}?after=0"))
    assert len(detail["trials"]) == 4
    assert detail["objective_names"][0] == "peak reserved (GiB)"
    assert "compared with the defaults" in detail["note"]["body"]
    assert {plot["id"] for plot in detail["plotly_graph_objects"]} == {
        "autotune-front",
        "autotune-pair",
    }


def test_a_busy_port_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert main(["dashboard", "--port", port]) == 2
    assert f"Port {port} cannot be used" in capsys.readouterr().err


@pytest.mark.parametrize("port", ["-1", "70000"])
def test_a_port_that_is_none_is_one_sentence(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dashboard", "--port", port]) == 2
    assert "is no port" in capsys.readouterr().err
