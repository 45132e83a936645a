"""`autotune verify` on a replayed study, through the real command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TRACE = Path(__file__).parents[1] / "data" / "gan.npz"


def autotune(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "autotune", *arguments], capture_output=True, text=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("study")
    trace = found / "gan.npz"
    trace.write_bytes(TRACE.read_bytes())
    storage = f"sqlite:///{found}/autotune.db"
    done = autotune("run", "--trace", str(trace), "--trials", "4", "--engine", "off", "--storage", storage)
    assert done.returncode == 0, done.stderr
    return found


def test_a_replayed_claim_holds_to_the_byte(folder: Path) -> None:
    done = autotune("verify", "--storage", f"sqlite:///{folder}/autotune.db", "--rounds", "2", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["holds"] is True
    assert found["found"]["memory"]["ratio"] == pytest.approx(found["claim"]["peak_reserved_ratio"])


def test_settings_that_need_more_than_the_defaults_fail_with_status_1(folder: Path) -> None:
    done = autotune(
        "verify", "--storage", f"sqlite:///{folder}/autotune.db", "--settings", "max_split_size_mb:33"
    )
    assert done.returncode == 1
    assert "The claim no longer holds: peak reserved changes by +" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "options", [["--rounds", "0"], ["--settings", "nonsense:1"], ["--timeout", "-1"], ["nobody"]]
)
def test_bad_usage_is_one_sentence(folder: Path, options: list[str]) -> None:
    done = autotune("verify", "--storage", f"sqlite:///{folder}/autotune.db", *options)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_settings_stay_on_one_line_however_long(folder: Path) -> None:
    long = "expandable_segments:True,roundup_power2_divisions:[16:4,32:2,64:1,>:1],large_segment_size_mb:26"
    done = autotune("verify", "--storage", f"sqlite:///{folder}/autotune.db", "--settings", long)
    assert f"Settings  {long}\n" in done.stdout
