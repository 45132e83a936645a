"""`autotune sweep` and `autotune fit` through the real command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRACE = ROOT / "tests" / "data" / "gan.npz"
SCRIPT = ROOT / "objectives" / "transformer_varlen.py"


def autotune(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "autotune", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_a_sweep_is_a_table_a_document_and_a_figure(tmp_path: Path) -> None:
    words = ("sweep", "max_split_size_mb", "--values", "32,128", "--trace", str(TRACE))
    shown = autotune(tmp_path, *words)
    assert shown.returncode == 0, shown.stderr
    assert max(map(len, shown.stdout.splitlines())) <= 80
    done = autotune(tmp_path, *words, "--json", "--html", "sweep.html")
    found = json.loads(done.stdout)
    assert [result["value"] for result in found["results"]] == [None, "32", "128"]
    alone = autotune(tmp_path, "replay", str(TRACE), "--settings", "max_split_size_mb:32", "--json")
    peak = json.loads(alone.stdout)["results"][0]["peak_reserved_bytes"]
    assert found["results"][1]["metrics"]["peak_reserved_bytes"] == peak
    assert "plotly" in (tmp_path / "sweep.html").read_text()
    assert not (tmp_path / "autotune.db").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("sweep", "nonsense", "--trace", str(TRACE)),
        ("sweep", "max_split_size_mb"),
        ("sweep", "max_split_size_mb", "--values", "x", "--trace", str(TRACE)),
        ("sweep", "garbage_collection_threshold", "--trace", str(TRACE)),
        ("fit", "--arg=--n", "--range", "1:2", "--script", str(SCRIPT)),
        ("fit", "--arg", "--n {}", "--range", "2", "--script", str(SCRIPT)),
        ("fit", "--arg", "--n {}", "--range", "1:2", "--script", "missing.py"),
        ("fit", "--arg", "--n {}", "--range", "1:2", "--trace", str(TRACE)),
        ("fit", "--arg", "--n {}", "--range", "1:2", "--script", str(SCRIPT), "--study", "nobody"),
    ],
)
def test_bad_usage_is_one_sentence(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = autotune(tmp_path, *words)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("autotune: ") and done.stderr.count("\n") == 1


def test_the_largest_batch_without_a_gpu_is_an_estimate(tmp_path: Path) -> None:
    words = ("fit", "--script", str(SCRIPT), "--arg=--batch-size {}", "--range", "1:4", "--steps", "2")
    done = autotune(tmp_path, *words, "--warmup", "1", "--gpu", "100MiB", "--json", "--", "--smoke")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Recording with --batch-size") > 1
    assert done.stderr.count("No usable GPU") == 1
    found = json.loads(done.stdout)
    assert found["obtained"] == "estimated"
    assert [result["settings"] for result in found["results"]] == ["expandable_segments:True", ""]
    for result in found["results"]:
        assert 1 <= result["largest"] <= 4
        assert result["peak_reserved_bytes"] <= 100 << 20
        assert result["step_seconds"] is None
