"""`autotune run` with a screening before the first trial, on a small trace and on a stand-in for the GPU."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest

from autotune import trace as traces
from autotune.cli import main
from autotune.errors import UsageError
from tests.integration.test_run_measured import DEVICE_BYTES, DRIVER, SCRIPTS
from tests.processes import MARK, wait_until_gone
from tests.traces import varying

STORAGE = "sqlite:///autotune.db"
Autotune = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def small_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        monkeypatch.delenv(name, raising=False)
    traces.save(varying(), Path("small.npz"))


@pytest.fixture
def autotune(capsys: pytest.CaptureFixture[str]) -> Autotune:
    """The command in this process: status, stdout, stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(arguments)
        found = capsys.readouterr()
        return status, found.out, found.err

    return call


def study(name: str) -> optuna.Study:
    return optuna.load_study(study_name=name, storage=STORAGE)


def num_trials(name: str) -> int:
    try:
        return len(study(name).trials)
    except (KeyError, optuna.exceptions.StorageInternalError):
        return 0


def test_the_screening_is_said_kept_and_leads_the_trials(autotune: Autotune) -> None:
    status, out, err = autotune("run", "--trace", "small.npz", "--trials", "30", "--json")
    assert status == 0
    found = json.loads(out)
    settings = [trial["settings"] for trial in found["trials"]]
    assert len(settings) == len(set(settings)) == 30
    assert settings[:2] == ["", "expandable_segments:True"]
    assert "of 3,000 settings behave differently; the least peak reserved among them would be" in err
    screened = study("small.screen")
    best = min(trial.values[0] for trial in screened.trials)
    reached = [trial.values[0] for trial in study("small").trials]
    assert min(reached) == pytest.approx(best)
    assert "screened" in {trial["role"] for trial in found["trials"][:12]}
    status, out, _ = autotune("report", "small.screen")
    assert status == 0
    assert "Replayed" in out


def test_three_trials_are_enough_for_what_is_predicted_to_be_best(autotune: Autotune) -> None:
    words = ("--without", "expandable_segments", "--json")
    status, out, _ = autotune("run", "--trace", "small.npz", "--trials", "2", *words)
    assert status == 0
    assert [trial["role"] for trial in json.loads(out)["trials"]] == ["default", "screened"]
    best = min(trial.values[0] for trial in study("small.screen").trials)
    assert study("small").trials[-1].values[0] == pytest.approx(best)


def test_killed_while_screening_or_in_a_trial_and_run_again_it_does_the_same(autotune: Autotune) -> None:
    words = ("run", "--trace", "small.npz", "--trials", "18")
    autotune(*words, "--study", "whole")
    for wanted in ("cut.screen", "cut"):
        process = _start(*words, "--study", "cut")
        while num_trials(wanted) < 2 and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    _, _, err = autotune(*words, "--study", "cut")
    assert "Screened:" in err
    for name in ("cut", "cut.screen"):
        ours, theirs = study(name).trials, study(name.replace("cut", "whole")).trials
        assert [trial.user_attrs["settings"] for trial in ours] == [
            trial.user_attrs["settings"] for trial in theirs
        ]


def test_a_study_that_goes_on_is_not_screened_again(autotune: Autotune) -> None:
    words = ("run", "--trace", "small.npz", "--trials")
    autotune(*words, "16")
    before = [trial.datetime_complete for trial in study("small.screen").trials]
    _, _, err = autotune(*words, "20")
    assert "Screening up to" not in err
    assert [trial.datetime_complete for trial in study("small.screen").trials] == before
    assert num_trials("small") == 20


def test_without_an_engine_it_is_a_plain_study(autotune: Autotune) -> None:
    _, _, err = autotune("run", "--trace", "small.npz", "--trials", "14", "--engine", "off")
    assert "Screen" not in err
    assert optuna.get_all_study_names(STORAGE) == ["small"]


def test_a_budget_that_is_spoken_for_is_not_screened_for(autotune: Autotune) -> None:
    _, _, err = autotune("run", "--trace", "small.npz", "--trials", "2")
    assert "Screen" not in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--engine", "real"], "'real' is no engine; choose model, native or off"),
        (["--sampler", "cma"], "'cma' is no sampler; choose one of tpe"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing_behind(
    words: list[str], said: str, autotune: Autotune
) -> None:
    status, out, err = autotune("run", "--trace", "small.npz", *words)
    assert (status, out) == (2, "")
    assert said in err
    assert [entry.name for entry in Path.cwd().iterdir()] == ["small.npz"]


@pytest.mark.parametrize("sampler", ["nsga2", "random"])
def test_another_sampler_proposes_the_rest(sampler: str, autotune: Autotune) -> None:
    status, out, _ = autotune("run", "--trace", "small.npz", "--trials", "24", "--sampler", sampler, "--json")
    assert status == 0
    assert len(json.loads(out)["trials"]) == 24


def _start(*arguments: str, **more: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "autotune", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


@pytest.fixture
def gpu(tmp_path: Path) -> Iterator[dict[str, str]]:
    """For processes that take the stand-in for a GPU; all of them carry a mark."""
    from autotune.allocator.native.build import stand_in_environment

    torch = pytest.importorskip("torch")
    if not torch.version.cuda:
        pytest.skip("needs a CUDA build of torch")
    try:
        stand_in = stand_in_environment(DEVICE_BYTES)
    except UsageError as error:
        pytest.skip(str(error))
    yield {**os.environ, **stand_in, MARK: str(tmp_path)}
    assert wait_until_gone(str(tmp_path)) == []


def measured(gpu: dict[str, str], *words: str, script: str = "allocates_on_gpu.py") -> tuple[int, str, str]:
    command = [sys.executable, "-c", DRIVER, "run", "--script", str(SCRIPTS / script), "--json", *words]
    done = subprocess.run(command, env=gpu, text=True, capture_output=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.native
def test_a_script_is_recorded_once_and_screened_before_it_is_measured(gpu: dict[str, str]) -> None:
    words = ("--warmup", "2", "--steps", "5", "--no-confirm", "--no-early-stop", "--trials")
    status, out, err = measured(gpu, *words, "12", "--", "20", "100")
    assert status == 0, err
    assert "Recording the script's allocations, once" in err
    assert "settings behave differently" in err
    found = json.loads(out)
    assert found["obtained"] == "measured"
    assert {trial["obtained"] for trial in found["trials"]} == {"measured"}
    predicted = {
        trial.user_attrs["settings"]: json.loads(trial.user_attrs["measurement"])
        for trial in study("allocates_on_gpu.screen").trials
    }
    assert {one["obtained"] for one in predicted.values()} == {"replayed"}
    both = [trial for trial in found["trials"] if trial["settings"] in predicted]
    assert "screened" in {trial["role"] for trial in both}
    for trial in both:
        bytes_predicted = predicted[trial["settings"]]["peak_reserved_bytes"]
        assert trial["metrics"]["peak_reserved_bytes"] == pytest.approx(bytes_predicted, rel=0.01)
    _, _, err = measured(gpu, *words, "14", "--", "20", "100")
    assert "Recording" not in err
    assert "Screening up to" not in err


@pytest.mark.native
def test_a_script_that_cannot_be_recorded_is_tuned_without_a_screening(gpu: dict[str, str]) -> None:
    Path("once.py").write_text(
        "import sys, pathlib\n"
        "mark = pathlib.Path('ran')\n"
        "if not mark.exists():\n"
        "    mark.touch()\n"
        "    sys.exit('not the first time')\n" + (SCRIPTS / "allocates_on_gpu.py").read_text()
    )
    words = ("--warmup", "1", "--steps", "2", "--trials", "9", "--no-confirm", "--", "6", "100")
    status, out, err = measured(gpu, *words, script=str(Path("once.py").absolute()))
    assert status == 0, err
    assert "No screening, as the script could not be recorded: " in err
    assert "Traceback" not in err
    roles = [trial["role"] for trial in json.loads(out)["trials"]]
    assert (len(roles), roles.count("default")) == (11, 3)


@pytest.mark.native
def test_the_largest_batch_on_a_gpu_is_predicted_then_proved_by_runs(gpu: dict[str, str]) -> None:
    words = ("--script", str(SCRIPTS / "batch_on_gpu.py"), "--arg={}", "--range", "1:200", "--json")
    command = [sys.executable, "-c", DRIVER, "fit", *words, "--warmup", "1", "--steps", "5"]
    done = subprocess.run(command, env=gpu, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["obtained"] == "measured"
    for result in found["results"]:
        assert 1 < result["largest"] < 200
        assert result["peak_reserved_bytes"] <= DEVICE_BYTES
        assert result["runs"] <= 4
        assert result["values_per_second"] > 0
