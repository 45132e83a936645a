"""Scripts that misbehave, run by a real worker without a GPU; one launcher serves them all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from autotune.trial.launcher import Launcher, LauncherDied
from tests.processes import MARK, marked, wait_until_gone

SCRIPTS = Path(__file__).parent.parent / "scripts"

Run = Callable[..., dict[str, Any]]


def request(script: Path, log: Path, **overrides: Any) -> dict[str, Any]:
    """A request for a run on the CPU: one step of warm-up and two measured."""
    return {
        "script": str(script), "arguments": [], "seed": 0, "settings": "", "environment": {}, "device": "cpu",
        "memory_limit_bytes": None, "memory_fraction": None, "warmup_steps": 1, "measured_steps": 2,
        "timeout_seconds": 60, "device_total_bytes": 1 << 34, "record": None, "log": str(log),
        "folder": os.getcwd(), **overrides,
    }  # fmt: skip


@pytest.fixture(scope="module")
def mark() -> Iterator[str]:
    value = uuid.uuid4().hex
    os.environ[MARK] = value
    yield value
    del os.environ[MARK]


@pytest.fixture(scope="module")
def launcher(mark: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    started = Launcher(sys.executable, device=0, log=tmp_path_factory.mktemp("worker") / "worker.log")
    yield started
    started.close()


@pytest.fixture
def run(launcher: Launcher, mark: str, tmp_path: Path) -> Run:
    """Run a script of `tests/scripts`; checks that nothing of it is left."""

    def run_script(name: str, **overrides: Any) -> dict[str, Any]:
        answer = launcher.run(request(SCRIPTS / f"{name}.py", tmp_path / "log", **overrides))
        here = (os.getpid(), launcher.pid)
        assert [process for process in marked(mark) if process.pid not in here] == []
        return {**answer, "log": (tmp_path / "log").read_text(errors="replace")}

    return run_script


def test_a_training_script_ends_after_the_steps_asked_for(run: Run) -> None:
    answer = run("trains")
    assert answer["outcome"] == "completed"
    assert len(answer["boundaries"]) == 3
    assert all(boundary["seconds"] > 0 for boundary in answer["boundaries"])
    assert "own end" not in answer["log"]


def test_a_script_shorter_than_that_completes_with_the_steps_it_made(run: Run) -> None:
    answer = run("trains", arguments=["2"])
    assert answer["outcome"] == "completed"
    assert len(answer["boundaries"]) == 2
    assert "own end" in answer["log"]


def test_two_optimizers_make_one_step_an_iteration(run: Run) -> None:
    assert len(run("two_optimizers", measured_steps=100)["boundaries"]) == 10


def test_a_script_can_say_where_its_steps_end(run: Run) -> None:
    assert len(run("marks_steps")["boundaries"]) == 3


def test_marked_steps_win_over_the_optimizers(run: Run) -> None:
    assert len(run("marks_and_optimizer", measured_steps=100)["boundaries"]) == 6


@pytest.mark.parametrize("script", ["never_steps", "ends_in_main"])
def test_a_script_without_steps_completes_without_boundaries(run: Run, script: str) -> None:
    answer = run(script)
    assert (answer["outcome"], answer["boundaries"]) == ("completed", [])


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("does_nothing", "without using the GPU"),
        ("optimizer_never_steps", "before that took its first step"),
        ("exits_before_first_step", "sys.exit(0) before its first step"),
        ("exits_with_status", "sys.exit(3)"),
        ("ends_its_process", "exit status 3"),
        ("raises", "RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
        ("reads_stdin", "reads its standard input"),
    ],
)
def test_a_failure_has_a_reason_in_one_sentence(run: Run, script: str, reason: str) -> None:
    answer = run(script)
    assert answer["outcome"] == "crashed"
    assert reason in answer["reason"]
    assert "\n" not in answer["reason"]


def test_the_log_shows_the_scripts_traceback_and_none_of_our_frames(run: Run) -> None:
    log = run("raises")["log"]
    assert "Traceback" in log and "raises.py" in log
    assert "child.py" not in log


def test_a_script_with_a_syntax_error_crashes_with_it(launcher: Launcher, tmp_path: Path) -> None:
    script = tmp_path / "broken.py"
    script.write_text("def f(:\n")
    answer = launcher.run(request(script, tmp_path / "log"))
    assert answer["outcome"] == "crashed"
    assert answer["reason"].startswith("SyntaxError")


def test_an_exit_after_steps_completes(run: Run) -> None:
    answer = run("exits_after_steps", measured_steps=100)
    assert (answer["outcome"], len(answer["boundaries"])) == ("completed", 4)


def test_megabytes_of_output_go_to_the_log(run: Run) -> None:
    answer = run("prints_megabytes")
    assert answer["outcome"] == "completed"
    assert len(answer["log"]) > 20_000_000 - 20


def test_a_script_that_catches_everything_cannot_stay(run: Run) -> None:
    answer = run("catches_every_exception")
    assert (answer["outcome"], len(answer["boundaries"])) == ("completed", 3)
    assert answer["log"].count("cleaning up") == 2  # the third step's `finally` never ran


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGKILL", "SIGTERM"])
def test_a_script_killed_by_a_signal_names_it_and_keeps_its_output(run: Run, name: str) -> None:
    answer = run("kills_itself", arguments=[name], measured_steps=100)
    assert answer["outcome"] == "crashed"
    assert name in answer["reason"] and "after 2 steps" in answer["reason"]
    assert "last words" in answer["log"]


def test_an_endless_script_times_out_even_if_it_ignores_sigterm(run: Run) -> None:
    answer = run("loops_forever", timeout_seconds=0.5)
    assert answer["outcome"] == "timed_out"
    assert "0.5 s" in answer["reason"] and "before its first step" in answer["reason"]
    assert "looping" in answer["log"]


def test_children_that_outlive_the_script_are_killed_daemons_too(run: Run) -> None:
    assert run("leaves_children")["outcome"] == "completed"  # `run` looks for survivors


def test_steps_in_a_thread_count_and_end_the_script(run: Run) -> None:
    answer = run("trains_in_a_thread")
    assert (answer["outcome"], len(answer["boundaries"])) == ("completed", 3)


def test_data_loader_workers_work_and_are_gone_afterwards(run: Run) -> None:
    answer = run("loads_data_in_workers")
    assert (answer["outcome"], len(answer["boundaries"])) == ("completed", 3)


def test_a_spawned_process_finds_the_script_and_autotune(run: Run) -> None:
    assert run("spawns_a_process")["outcome"] == "completed"


def test_a_script_runs_as_it_would_by_itself(run: Run) -> None:
    settings = "max_split_size_mb:128"
    seen = json.loads(
        run("shows_its_surroundings", arguments=["--rate", "0.1"], settings=settings)["log"].splitlines()[-1]
    )
    path = str(SCRIPTS / "shows_its_surroundings.py")
    assert seen["name"] == "__main__" and seen["main"]
    assert seen["file"] == path and seen["argv"] == [path, "--rate", "0.1"]
    assert seen["folder"] == str(SCRIPTS) and seen["cwd"] == os.getcwd()
    assert seen["neighbour"] == str(SCRIPTS / "neighbour.py")
    assert seen["stdin"] == "" and seen["ours"] == []
    assert seen["variables"] == {"PYTORCH_CUDA_ALLOC_CONF": settings}


def test_a_seed_makes_runs_alike_and_none_leaves_them_alone(run: Run) -> None:
    def numbers(seed: int | None) -> tuple[float, float]:
        seen = json.loads(run("shows_its_surroundings", seed=seed)["log"].splitlines()[-1])
        return seen["random"], seen["torch_random"]

    assert numbers(1) == numbers(1) != numbers(2)
    assert numbers(None)[0] != numbers(None)[0]


def test_a_script_that_names_cuda_runs_without_a_gpu_and_unchanged(run: Run) -> None:
    answer = run("checks_redirection", measured_steps=100)
    assert answer["outcome"] == "completed", answer["reason"]
    assert "all is well" in answer["log"]


def test_a_log_that_cannot_be_written_fails_the_trial_and_not_the_worker(launcher: Launcher) -> None:
    answer = launcher.run(request(SCRIPTS / "trains.py", Path("/nowhere/log")))
    assert answer["outcome"] == "crashed" and "/nowhere/log cannot be written" in answer["reason"]


def test_a_script_that_closes_every_file_still_ends(run: Run) -> None:
    answer = run("closes_all_files")
    assert answer["outcome"] == "crashed"
    assert "ended its own process with exit status 0" in answer["reason"]


def test_a_fresh_process_a_trial_gives_the_same(mark: str, tmp_path: Path) -> None:
    launcher = Launcher(sys.executable, device=0, log=tmp_path / "worker.log", fresh=True)
    try:
        assert launcher.why_not_forked is not None
        answer = launcher.run(request(SCRIPTS / "trains.py", tmp_path / "log"))
    finally:
        launcher.close()
    assert (answer["outcome"], len(answer["boundaries"])) == ("completed", 3)


def test_a_launcher_that_is_killed_says_so_and_leaves_nothing(mark: str, tmp_path: Path) -> None:
    launcher = Launcher(sys.executable, device=0, log=tmp_path / "worker.log", fresh=True)
    with pytest.raises(LauncherDied):
        launcher.run(request(SCRIPTS / "kills_its_parent.py", tmp_path / "log"))
    launcher.close()
    assert not psutil.pid_exists(launcher.pid)


PARENT = """
import sys
from pathlib import Path
from autotune.trial.launcher import Launcher
from tests.integration.test_worker import SCRIPTS, request
launcher = Launcher(sys.executable, device=0, log=Path(sys.argv[1]) / "worker.log", fresh=True)
print("started", flush=True)
launcher.run(request(SCRIPTS / "leaves_children.py", Path(sys.argv[1]) / "log", measured_steps=1 << 60,
                     arguments=[str(1 << 60)], timeout_seconds=600))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_when_the_parent_dies(tmp_path: Path, number: signal.Signals) -> None:
    value = uuid.uuid4().hex
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        env={**os.environ, MARK: value},
        cwd=SCRIPTS.parent.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert parent.stdout is not None and parent.stdout.readline() == b"started\n"
    while len(marked(value)) < 6:  # the parent, the launcher, the script and its three children
        assert parent.poll() is None
    parent.send_signal(number)
    parent.wait()
    parent.stdout.close()
    assert wait_until_gone(value) == []
