"""`autotune run --script` with real worker processes: PyTorch's own allocator on a stand-in for the GPU."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from autotune.errors import UsageError
from tests.processes import MARK, wait_until_gone

SCRIPTS = Path(__file__).parents[1] / "scripts"
DEVICE_BYTES = 8 << 30

# The stand-in cannot compute, so the probe would find no usable GPU; its answer is given in its place.
DRIVER = """
import sys
import torch
from autotune.cli import main
from autotune.study import prepare, verify
from autotune.trial.facts import Facts
facts = Facts(
    python=sys.executable, python_version="3", torch=torch.__version__, usable=True,
    gpu="stand-in", device_total_bytes=8 << 30,
)
prepare.preflight = verify.preflight = lambda job: facts
sys.exit(main(sys.argv[1:]))
"""

pytestmark = pytest.mark.native


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """For processes that take the stand-in for a GPU; all of them carry a mark."""
    from autotune.allocator.native.build import stand_in_environment

    torch = pytest.importorskip("torch")
    if not torch.version.cuda:
        pytest.skip("needs a CUDA build of torch")
    monkeypatch.chdir(tmp_path)
    try:
        stand_in = stand_in_environment(DEVICE_BYTES)
    except UsageError as error:
        pytest.skip(str(error))
    yield {**os.environ, **stand_in, MARK: str(tmp_path)}
    assert wait_until_gone(str(tmp_path)) == []


def start(environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    script = str(SCRIPTS / "allocates_on_gpu.py")
    command = [
        sys.executable,
        "-c",
        DRIVER,
        "run",
        "--script",
        script,
        "--warmup",
        "2",
        "--steps",
        "3",
        "--json",
    ]
    return subprocess.Popen(
        [*command, *arguments], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def num_trials() -> int:
    try:
        with closing(sqlite3.connect("file:autotune.db?mode=ro", uri=True)) as connection:
            return int(connection.execute("SELECT count(*) FROM trials").fetchone()[0])
    except sqlite3.Error:
        return 0


def test_killed_in_a_trial_it_leaves_no_process_and_goes_on(environment: dict[str, str]) -> None:
    words = ("--trials", "9", "--engine", "off", "--", "6", "100")
    process = start(environment, *words)
    while num_trials() < 3 and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert wait_until_gone(str(Path.cwd())) == []
    out, err = start(environment, *words).communicate(timeout=120)
    found = json.loads(out)
    assert "Traceback" not in err
    assert found["obtained"] == "measured"
    # Nine different settings, the defaults twice more, and two or three finalists confirmed in three rounds.
    roles = [trial["role"] for trial in found["trials"]]
    assert [trial["number"] for trial in found["trials"]] == list(range(len(roles)))
    assert len({trial["settings"] for trial in found["trials"]}) == 9
    assert roles.count("default") == 3
    assert roles.count("confirm") in (6, 9)
    assert {"", "expandable_segments:True"} <= {
        trial["settings"] for trial in found["trials"] if trial["role"] == "confirm"
    }
    assert set(found["trials"][0]["metrics"]) == {"peak_reserved_bytes", "fragmentation", "step_seconds"}
    logs = {path.name for path in Path("autotune-runs/allocates_on_gpu").iterdir()}
    assert {f"trial-{number:03d}.log" for number in range(len(roles))} <= logs
    # Nothing is computed on the stand-in, so times mean nothing, nor does which settings are recommended: the
    # defaults, perhaps. Memory is PyTorch's own allocator's.
    verify = [sys.executable, "-c", DRIVER, "verify", "--json", "--settings", "expandable_segments:True"]
    done = subprocess.run(verify, env=environment, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    claimed = json.loads(done.stdout)
    ratios = claimed["claim"]["peak_reserved_ratio"], claimed["found"]["memory"]["ratio"]
    assert ratios[0] == pytest.approx(ratios[1])
    assert done.returncode == (0 if claimed["holds"] else 1)
    assert num_trials() == len(roles)
    report = [sys.executable, "-m", "autotune", "report"]
    text = subprocess.run(report, capture_output=True, text=True, check=True).stdout
    assert "Measured" in text
    assert "Starting a worker took" in text
    assert " ± " in " ".join(text.split())
