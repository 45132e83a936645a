"""`autotune report`, `export` and `doctor` from a study in a database."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from autotune.cli import main

GAN = str(Path(__file__).parents[1] / "data" / "gan.npz")
GNN = str(Path(__file__).parents[1] / "data" / "gnn.npz")
Autotune = Callable[..., tuple[int, str, str]]


@pytest.fixture
def autotune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Autotune:
    """The command in this process, in an empty folder: status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(arguments)
        found = capsys.readouterr()
        return status, found.out, found.err

    return call


@pytest.fixture
def studied(autotune: Autotune) -> Autotune:
    """The same, with a study of a few trials."""
    autotune("run", "--trace", GNN, "--trials", "6", "--engine", "off")
    return autotune


def test_the_newest_study_is_reported_unless_another_is_named(studied: Autotune) -> None:
    studied("run", "--trace", GNN, "--trials", "2", "--study", "later")
    assert json.loads(studied("report", "--json")[1])["study"] == "later"
    assert json.loads(studied("report", "gnn", "--json")[1])["study"] == "gnn"


def test_without_a_study_there_is_one_sentence(autotune: Autotune) -> None:
    for command in ("report", "export", "dashboard"):
        status, out, err = autotune(command)
        assert (status, out) == (2, "")
        assert "There is no database autotune.db yet" in err


def test_a_study_that_is_not_there_is_named_with_those_that_are(studied: Autotune) -> None:
    status, _, err = studied("report", "nng")
    assert status == 2
    assert "There is no study 'nng' in" in err
    assert "'gnn'" in err


def test_the_studies_are_listed_the_newest_first_and_screenings_are_none(studied: Autotune) -> None:
    studied("run", "--trace", GNN, "--trials", "1", "--study", "later", "--memory-limit", "20GiB")
    status, out, _ = studied("report", "--list")
    later, earlier = out.splitlines()
    assert status == 0
    assert later.split() == ["later", "1", "trial", "replayed", GNN]
    assert earlier.split() == ["gnn", "6", "trials", "replayed", GNN]
    assert json.loads(studied("report", "--list", "--json")[1]) == [
        {"study": "later", "trials": 1, "obtained": "replayed", "tuned": GNN},
        {"study": "gnn", "trials": 6, "obtained": "replayed", "tuned": GNN},
    ]
    for more in (["gnn"], ["--html", "r.html"], ["--png", "r.png"]):
        status, out, err = studied("report", "--list", *more)
        assert (status, out) == (2, "") and "leave out STUDY" in err


def test_reports_and_exports_leave_the_database_alone(studied: Autotune) -> None:
    before = Path("autotune.db").read_bytes()
    for command in (("report",), ("report", "--json"), ("report", "--html", "r.html"), ("export",)):
        assert studied(*command)[0] == 0
    assert Path("autotune.db").read_bytes() == before


def test_run_and_report_print_the_same_document(studied: Autotune) -> None:
    assert (
        studied("run", "--trace", GNN, "--trials", "6", "--engine", "off", "--json")[1]
        == studied("report", "--json")[1]
    )


def test_an_existing_file_is_replaced_only_with_force(studied: Autotune) -> None:
    Path("best.env").write_text("precious")
    status, _, err = studied("export", "-o", "best.env")
    assert status == 2
    assert "best.env exists already; replace it with --force" in err
    assert Path("best.env").read_text() == "precious"
    assert studied("export", "-o", "best.env", "--force")[0] == 0
    assert "PYTORCH_CUDA_ALLOC_CONF=" in Path("best.env").read_text()


@pytest.mark.parametrize("place", ["missing/best.env", "."])
def test_a_place_that_cannot_be_written_is_one_sentence(place: str, studied: Autotune) -> None:
    status, _, err = studied("export", "-o", place, "--force")
    assert status == 2
    assert "cannot be written" in err
    assert studied("report", "--html", place)[0] == 2


@pytest.mark.parametrize("pick", ["balanced", "memory", "speed", "trial:1"])
@pytest.mark.parametrize("form", ["env", "shell", "docker", "slurm", "json"])
def test_every_pick_exports_in_every_format(pick: str, form: str, studied: Autotune) -> None:
    status, out, _ = studied("export", "--pick", pick, "--format", form)
    assert status == 0
    assert "PYTORCH_CUDA_ALLOC_CONF" in out
    assert pick in out


@pytest.mark.parametrize("pick", ["trial:99", "best", "trial:"])
def test_a_pick_that_is_none_is_one_sentence(pick: str, studied: Autotune) -> None:
    status, out, err = studied("export", "--pick", pick)
    assert (status, out) == (2, "")
    assert len(err.strip().splitlines()) == 1


def test_torch_runs_with_the_exported_file(studied: Autotune) -> None:
    pytest.importorskip("torch")
    studied("export", "--pick", "memory", "-o", "best.env")
    command = f'set -a; . ./best.env; set +a; "{sys.executable}" -c "import torch; print(torch.__version__)"'
    done = subprocess.run(["sh", "-ec", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_doctor_says_what_is_there_and_what_the_environment_sets(
    autotune: Autotune, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:1")
    status, out, _ = autotune("doctor", "--json")
    found = json.loads(out)
    assert status == 0
    assert found["options"]["max_split_size_mb"] is True
    assert found["environment"]["PYTORCH_CUDA_ALLOC_CONF"] == "max_split_size_mb:1"
    assert any("PYTORCH_CUDA_ALLOC_CONF is set" in problem for problem in found["problems"])
    assert any("No usable GPU" in problem for problem in found["problems"])


def test_the_doctor_fits_80_columns_and_loses_nothing(
    autotune: Autotune, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "roundup_power2_divisions:[256:1,512:2,>:8]")
    status, out, _ = autotune("doctor")
    assert status == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "roundup_power2_divisions:[256:1,512:2,>:8]" in out
    said = " ".join(out.split())
    assert all(
        " ".join(one.split()) in said for one in json.loads(autotune("doctor", "--json")[1])["problems"]
    )


def test_where_nothing_fits_the_limit_that_the_report_names_is_enough(autotune: Autotune) -> None:
    arguments = ("run", "--trace", GAN, "--trials", "3", "--engine", "off")
    status, out, _ = autotune(*arguments, "--study", "tight", "--memory-limit", "1067MiB")
    assert status == 1
    named = re.search(r"--memory-limit\s+(\d+MiB)\s+or\s+more", out)
    assert named is not None
    status, out, _ = autotune(*arguments, "--study", "wider", "--memory-limit", named[1])
    assert status == 0
    assert "Use trial" in out
