"""`autotune run` on traces and on scripts without a GPU, driven as a user drives it."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import optuna
import pytest

from autotune.cli import main
from autotune.settings import AllocatorSettings
from autotune.study.lock import hold_study
from autotune.study.storage import open_storage

TESTS = Path(__file__).parents[1]
GNN = str(TESTS / "data" / "gnn.npz")
STORAGE = "sqlite:///autotune.db"
FINISHED = "FROM trials JOIN studies USING (study_id) WHERE study_name NOT LIKE '%.screen'"
PLAIN = ("--engine", "off")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test in a working folder of its own, with nothing set in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def autotune(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """The command in this process (starting one takes seconds): status, stdout, stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(arguments)
        found = capsys.readouterr()
        return status, found.out, found.err

    return call


Autotune = Callable[..., tuple[int, str, str]]


def start(*arguments: str, **more: Any) -> subprocess.Popen[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "autotune", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def trials(name: str = "gnn") -> list[optuna.trial.FrozenTrial]:
    return optuna.load_study(study_name=name, storage=STORAGE).trials


def num_trials() -> int:
    """Rows in the database so far, read without a lock."""
    try:
        with closing(sqlite3.connect("file:autotune.db?mode=ro", uri=True)) as connection:
            return int(connection.execute(f"SELECT count(*) {FINISHED}").fetchone()[0])
    except sqlite3.Error:
        return 0


def refused(found: tuple[int, str, str]) -> str:
    """The one sentence of a refusal."""
    status, out, err = found
    assert status == 2
    assert out == ""
    assert "Traceback" not in err
    sentence = err.strip().splitlines()[-1]
    assert sentence.startswith("autotune: ")
    return sentence


def test_a_trace_gives_as_many_different_finished_trials_as_asked(autotune: Autotune) -> None:
    status, out, _ = autotune("run", "--trace", GNN, "--trials", "60", "--json")
    assert status == 0
    found = json.loads(out)
    settings = [trial["settings"] for trial in found["trials"]]
    assert len(settings) == len(set(settings)) == 60
    assert {"", "expandable_segments:True"} <= set(settings)
    assert all(trial.state.is_finished() for trial in trials())
    points = {trial["number"]: tuple(trial["metrics"].values()) for trial in found["trials"]}
    for number, point in points.items():
        beaten = any(
            all(a <= b for a, b in zip(other, point, strict=True)) and other != point
            for other in points.values()
        )
        assert (number in found["front"]) != beaten
    best = {trial.number for trial in optuna.load_study(study_name="gnn", storage=STORAGE).best_trials}
    assert best == set(found["front"])
    baseline, recommended = (points[found[name]] for name in ("baseline", "recommended"))
    assert recommended[0] <= baseline[0]


def test_the_replays_are_those_of_the_replay_command(autotune: Autotune) -> None:
    _, out, _ = autotune("run", "--trace", GNN, "--trials", "8", "--json")
    ours = {trial["settings"]: trial["metrics"]["peak_reserved_bytes"] for trial in json.loads(out)["trials"]}
    asked = [word for settings in ours for word in ("--settings", settings)]
    _, out, _ = autotune("replay", GNN, *asked, "--json")
    assert {one["settings"]: one["peak_reserved_bytes"] for one in json.loads(out)["results"]} == ours


def test_the_run_ends_with_its_report_and_commands_that_work(autotune: Autotune) -> None:
    status, out, err = autotune("run", "--trace", GNN, "--trials", "3", *PLAIN)
    assert status == 0
    assert "Replayed" in out
    commands = [line.split()[3:] for line in err.splitlines() if line.startswith("  python -m autotune")]
    assert [command[0] for command in commands] == ["report", "export", "dashboard"]
    for command in commands[:2]:
        assert autotune(*command)[0] == 0
    assert Path("report.html").is_file()
    assert "PYTORCH_CUDA_ALLOC_CONF=" in Path("best.env").read_text()


def test_killed_at_any_moment_and_run_again_nothing_is_lost(folder: Path) -> None:
    plain = ("run", "--trace", GNN, "--trials", "24", *PLAIN)
    whole = start(*plain, "--study", "whole")
    arguments = (*plain, "--study", "cut", "--storage", "sqlite:///cut.db")
    chance, before = random.Random(1), 0
    for _ in range(4):
        process = start(*arguments)
        time.sleep(chance.uniform(0.3, 3.5))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if Path("cut.db").exists():
            found = _rows("cut.db")
            assert len(found) >= before, "a trial was lost"
            assert all(state == "COMPLETE" for _, state in found)
            before = len(found)
    out, err = start(*arguments, "--json").communicate(timeout=120)
    assert err.count("Traceback") == 0
    whole.communicate(timeout=120)
    cut = [trial["settings"] for trial in json.loads(out)["trials"]]
    assert cut == [trial.user_attrs["settings"] for trial in trials("whole")]


def _rows(path: str) -> list[tuple[int, str]]:
    with closing(sqlite3.connect(path)) as connection:
        try:
            return list(connection.execute(f"SELECT number, state {FINISHED}"))
        except sqlite3.OperationalError:  # killed before the tables were made
            return []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_ends_tidily_and_says_how_to_go_on(number: signal.Signals) -> None:
    process = start("run", "--trace", GNN, "--trials", "300", *PLAIN)
    while num_trials() < 3:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert f"python -m autotune run --trace {GNN} --trials 300 --engine off" in err.splitlines()[-1]
    assert 3 <= len(trials()) < 300


def test_two_runs_at_once_share_no_study(autotune: Autotune) -> None:
    with hold_study(open_storage(STORAGE), "gnn"):
        sentence = refused(autotune("run", "--trace", GNN, "--trials", "2"))
        assert f"is being run by process {os.getpid()}" in sentence
        assert autotune("run", "--trace", GNN, "--trials", "2", "--study", "other")[0] == 0


def test_two_runs_started_at_the_same_moment_lose_and_repeat_nothing() -> None:
    both = [start("run", "--trace", GNN, "--trials", "12", *PLAIN) for _ in range(2)]
    ends = [process.communicate(timeout=120) for process in both]
    assert 0 in [process.returncode for process in both]
    assert {process.returncode for process in both} <= {0, 2}
    assert not any("Traceback" in err for _, err in ends)
    settings = [trial.user_attrs["settings"] for trial in trials()]
    assert len(settings) == len(set(settings)) == 12


def test_more_trials_later_add_to_the_study(autotune: Autotune) -> None:
    autotune("run", "--trace", GNN, "--trials", "3", *PLAIN)
    _, _, err = autotune("run", "--trace", GNN, "--trials", "3", *PLAIN)
    assert "has 3 trials already; --trials 23 adds" in err
    autotune("run", "--trace", GNN, "--trials", "5", *PLAIN)
    assert len(trials()) == 5


def test_under_a_memory_limit_out_of_memory_is_a_result(autotune: Autotune) -> None:
    status, out, _ = autotune("run", "--trace", GNN, "--trials", "12", "--memory-limit", "9000MiB", "--json")
    found = json.loads(out)
    outcomes = {trial["settings"]: trial["outcome"] for trial in found["trials"]}
    assert status == 0
    assert "out_of_memory" in outcomes.values()
    assert found["trials"][found["recommended"]]["outcome"] == "completed"
    assert any("garbage_collection_threshold" in settings for settings in outcomes)


def test_a_limit_in_which_nothing_fits_is_work_that_failed(autotune: Autotune) -> None:
    status, out, err = autotune("run", "--trace", GNN, "--trials", "3", "--memory-limit", "1GiB")
    assert status == 1
    assert "none fits; live tensors alone take 8.35 GiB at their peak" in err
    said = " ".join(out.split())
    assert "nothing to recommend. Live tensors alone take 8.35 GiB at their peak, more than the limit" in said
    status, _, err = autotune("export")
    assert (status, "run it again" in err) == (2, False)
    assert "fits into the limit of 1.00 GiB" in err


def test_options_left_out_and_small_spaces(autotune: Autotune) -> None:
    without = ("max_split_size_mb", "roundup_power2_divisions", "large_segment_size_mb")
    words = [word for option in without for word in ("--without", option)]
    status, out, err = autotune("run", "--trace", GNN, "--trials", "60", *words, "--json")
    assert status == 0
    assert [trial["settings"] for trial in json.loads(out)["trials"]] == ["", "expandable_segments:True"]
    assert "Ended after 2 trials: everything in the search space was tried." in err


def test_what_the_environment_sets_is_said_tried_and_compared(
    autotune: Autotune, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:300, roundup_power2_divisions:4")
    _, out, err = autotune("run", "--trace", GNN, "--trials", "4", *PLAIN, "--json")
    trial = json.loads(out)["trials"][2]
    assert trial["role"] == "environment"
    assert AllocatorSettings.parse(trial["settings"]) == AllocatorSettings.parse(
        "max_split_size_mb:300,roundup_power2_divisions:4"
    )
    assert "Your environment sets max_split_size_mb:300,roundup_power2_divisions:4: trial 2" in err


def test_given_settings_are_tried(autotune: Autotune) -> None:
    _, out, _ = autotune(
        "run", "--trace", GNN, "--trials", "3", *PLAIN, "--settings", "max_split_size_mb:333", "--json"
    )
    assert [(trial["role"], trial["settings"]) for trial in json.loads(out)["trials"]][2] == (
        "given",
        "max_split_size_mb:333",
    )


def test_another_torch_gives_another_study(autotune: Autotune) -> None:
    _, out, _ = autotune("run", "--trace", GNN, "--trials", "2", "--torch", "2.8", "--json")
    assert json.loads(out)["environment"]["torch"] == "2.8"
    sentence = refused(autotune("run", "--trace", GNN, "--trials", "2", "--torch", "2.14"))
    assert "torch: 2.8, now 2.14" in sentence
    assert "--study gnn-2" in sentence


MISTAKES: dict[str, tuple[list[str], str]] = {
    "nothing to tune": ([], "name a script with --script"),
    "script and trace": (["--script", "a.py", "--trace", GNN], "exclude each other"),
    "no trials": (["--trace", GNN, "--trials", "0"], "--trials 0 is too few"),
    "no steps": (["--script", "a.py", "--steps", "0"], "--steps 0 is too few"),
    "no time": (["--script", "a.py", "--timeout", "0"], "--timeout 0"),
    "not a number": (["--script", "a.py", "--timeout", "nan"], "--timeout nan"),
    "negative seed": (["--script", "a.py", "--seed", "-1"], "--seed -1"),
    "missing script": (["--script", "missing.py"], "no script missing.py"),
    "missing trace": (["--trace", "missing.npz"], "missing.npz"),
    "foreign trace": (["--trace", __file__], "is no trace"),
    "unknown option left out": (["--trace", GNN, "--without", "split"], "it takes max_split_size_mb"),
    "unknown setting": (["--trace", GNN, "--settings", "split:1"], "'split' is no option"),
    "illegal setting": (["--trace", GNN, "--settings", "max_split_size_mb:5"], "max_split_size_mb:5"),
    "setting of a later torch": (
        ["--trace", GNN, "--torch", "2.8", "--settings", "large_segment_size_mb:64"], "from torch 2.11 on"
    ),
    "limit that is no size": (["--trace", GNN, "--memory-limit", "much"], "'much' is not a size"),
    "limit above the GPU": (["--trace", GNN, "--memory-limit", "900GiB"], "above the GPU's"),
    "unknown GPU": (["--trace", GNN, "--gpu", "Voodoo2"], "Voodoo2"),
    "torch that is none": (["--trace", GNN, "--torch", "new"], "'new' is not a torch version"),
    "torch too old": (["--trace", GNN, "--torch", "1.13"], "too old"),
    "devices that are none": (["--script", "a.py", "--devices", "x"], "--devices x"),
    "empty name": (["--trace", GNN, "--study", " "], "name"),
    "name with a line break": (["--trace", GNN, "--study", "a\nb"], "control characters"),
    "storage that is no URL": (["--trace", GNN, "--storage", "autotune.db"], "sqlite:///FILE.db"),
    "storage in no folder": (["--trace", GNN, "--storage", "sqlite:///none/a.db"], "no folder none"),
    "arguments of a trace": (["--trace", GNN, "--", "--epochs", "3"], "takes no arguments"),
    "missing config": (["--config", "none.toml"], "none.toml cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence_and_leaves_nothing_behind(
    mistake: str, autotune: Autotune, folder: Path
) -> None:
    arguments, said = MISTAKES[mistake]
    assert said in refused(autotune("run", *arguments))
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["max_split_size_mb=128", "max_split_size:128", "max_split_size_mb:1", "expandable_segments:true"]
)
def test_an_illegal_environment_is_refused_before_anything_runs(
    text: str, autotune: Autotune, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", text)
    assert "PYTORCH_CUDA_ALLOC_CONF is set in your environment" in refused(autotune("run", "--trace", GNN))
    assert list(folder.iterdir()) == []


def test_a_foreign_database_stays_as_it_is(autotune: Autotune, folder: Path) -> None:
    with closing(sqlite3.connect("autotune.db")) as connection:
        connection.execute("CREATE TABLE runs (id INTEGER)")
    before = Path("autotune.db").read_bytes()
    for command in (("run", "--trace", GNN), ("report",), ("export",), ("dashboard",)):
        assert "belongs to another program" in refused(autotune(*command))
    assert Path("autotune.db").read_bytes() == before
    assert [entry.name for entry in folder.iterdir()] == ["autotune.db"]


def test_a_full_disk_is_said_and_nothing_finished_is_lost() -> None:
    def small_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (150 * 1024, 150 * 1024))

    process = start("run", "--trace", GNN, "--trials", "20", *PLAIN, preexec_fn=small_disk)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "Traceback" not in err
    assert "make room and run the same command again" in err.splitlines()[-1]
    kept = num_trials()
    out, _ = start("run", "--trace", GNN, "--trials", str(kept + 2), *PLAIN, "--json").communicate(
        timeout=120
    )
    assert len(json.loads(out)["trials"]) == kept + 2


@pytest.mark.parametrize("name", ["../../up", "<b>&\"'", "a; touch x", "-rf", "日本 {0} %s"])
def test_an_odd_study_name_works_everywhere_and_is_only_a_name(
    name: str, autotune: Autotune, folder: Path
) -> None:
    assert autotune("run", "--trace", GNN, "--trials", "2", f"--study={name}")[0] == 0
    assert json.loads(autotune("report", "--json", "--", name)[1])["study"] == name
    assert autotune("report", "--html", "r.html", "--", name)[0] == 0
    assert autotune("export", "-o", "best.env", "--", name)[0] == 0
    assert {entry.name.split(".")[0] for entry in folder.iterdir()} == {"autotune", "r", "best"}
    assert subprocess.run(["sh", "-c", ". ./best.env"], check=False).returncode == 0


def test_a_study_file_says_what_the_command_line_does_not(autotune: Autotune, folder: Path) -> None:
    Path("study.toml").write_text(
        f'trace = "{GNN}"\nstudy = "written"\ntrials = 2\nwithout = ["expandable_segments"]\n'
    )
    _, out, _ = autotune("run", "--config", "study.toml", "--trials", "3", *PLAIN, "--json")
    found = json.loads(out)
    assert found["study"] == "written"
    assert len(found["trials"]) == 3
    assert not any("expandable" in trial["settings"] for trial in found["trials"])


def test_a_script_without_a_gpu_is_recorded_once_and_estimated(
    autotune: Autotune, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    script = Path("train.py")
    script.write_text((TESTS / "scripts" / "trains.py").read_text())
    arguments = ("run", "--script", "train.py", "--warmup", "1", "--steps", "2", "--no-confirm", "--json")
    status, out, err = autotune(*arguments, "--trials", "5")
    assert status == 0
    found = json.loads(out)
    assert found["obtained"] == "estimated"
    assert {trial["obtained"] for trial in found["trials"]} == {"estimated"}
    assert "on the CPU" in err
    _, report, _ = autotune("report")
    said = " ".join(report.split())
    assert said.count("recorded without a GPU") == 1
    assert said.count("too low by an unknown amount") == 1
    assert said.count("tep time is not known") == 1
    assert "± " not in report
    # The recording serves again when the study goes on.
    _, out, err = autotune(*arguments, "--trials", "6")
    assert len(json.loads(out)["trials"]) == 6
    assert "recording" not in err
    # An edited script does not go on with the study of the old one.
    script.write_text(script.read_text() + "# edited\n")
    sentence = refused(autotune(*arguments, "--trials", "7"))
    assert "version of the script: " in sentence
    assert "--study train-2" in sentence


def test_an_estimate_of_a_script_that_ends_early_says_so(
    autotune: Autotune, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    script = str(TESTS / "scripts" / "trains.py")
    options = ("--warmup", "1", "--steps", "4", "--trials", "1", "--engine", "off", "--json")
    for steps, told in (("3", True), ("9", False)):
        _, out, _ = autotune("run", "--script", script, "--study", f"s{steps}", *options, "--", steps)
        notes = " ".join(json.loads(out)["notes"])
        assert ("ended after 3 of the 5 steps" in notes) is told


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("raise RuntimeError('boom in my script')", "RuntimeError: boom in my script."),
        ("import sys; sys.exit(2)", "The script ended with sys.exit(2)."),
    ],
)
def test_a_script_that_fails_at_once_is_work_that_failed_for_its_own_cause(
    line: str, cause: str, autotune: Autotune, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (folder / "fails.py").write_text(f"import torch\n{line}\n")
    status, out, err = autotune("run", "--script", "fails.py", "--trials", "2")
    assert (status, out) == (1, "")
    last = err.splitlines()[-1]
    assert f"The script could not be recorded: {cause} Everything it printed is in" in last
    assert "puts nothing on a GPU" not in err and "on the CPU instead" not in err
    assert "Traceback" not in err


def test_a_snapshot_cut_at_its_beginning_is_refused_until_told_that_it_will_do(autotune: Autotune) -> None:
    snapshot = pickle.loads(gzip.decompress((TESTS / "data" / "expandable.pickle.gz").read_bytes()))
    snapshot["device_traces"][0] = snapshot["device_traces"][0][300:]
    Path("cut.pickle").write_bytes(pickle.dumps(snapshot))
    words = ("run", "--trace", "cut.pickle", "--trials", "3", *PLAIN)
    assert "--partial" in refused(autotune(*words))
    status, out, _ = autotune(*words, "--partial", "--json")
    assert status == 0
    found = json.loads(out)
    assert len(found["trials"]) == 3
    assert found["matters"] is not None
