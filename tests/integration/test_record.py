"""`autotune record` without a GPU: what is in the file, and what is refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from autotune import trace
from autotune.cli import main
from autotune.trial import preflight
from autotune.trial.facts import Facts, probe
from tests.launchers import one_launcher

SCRIPTS = Path(__file__).parent.parent / "scripts"
KIB = 1024


@pytest.fixture(scope="module", autouse=True)
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    pytest.importorskip("torch")
    with one_launcher(tmp_path_factory.mktemp("worker")):
        yield


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Facts without asking for them."""
    known = Facts(python=sys.executable, python_version="3", torch="2.11.0", why_not="no GPU is visible")
    monkeypatch.setattr(preflight, "probe", lambda python, *, device: known)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def record(script: str, *more: str) -> int:
    return main(["record", "--script", str(SCRIPTS / f"{script}.py"), "-o", "out/trace.npz", *more])


def test_a_script_that_names_cuda_is_recorded_as_it_would_run_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert record("trains_on_cuda", "--warmup", "1", "--steps", "3", "--gpu", "24GiB") == 0
    found = trace.load("out/trace.npz")
    assert len(found.step_ends) == 4
    about = found.recording
    assert about.estimated and about.device_total_bytes == 24 << 30 and about.observed == {}
    sizes = found.size[found.is_alloc] // KIB
    # The weight (2 MiB in float32), its gradient and Adam's two states stay; inputs grow by 4 KiB a step.
    assert np.count_nonzero(sizes == 2048) >= 4
    first_inputs = 32 * 1024 * 4 // KIB
    for step in range(4):
        assert np.count_nonzero(sizes == first_inputs + 4 * step) == 1
    shown = capsys.readouterr()
    assert "4 steps" in shown.out and "autotune replay out/trace.npz" in shown.out
    assert "estimate" in shown.err and "workspaces" in shown.err


def test_without_names_of_devices_everything_counts_and_arguments_reach_the_script(no_gpu: None) -> None:
    assert record("trains", "--", "2") == 0
    found = trace.load("out/trace.npz")
    assert len(found.step_ends) == 2
    assert 64 * 64 * 4 in found.size


def test_a_script_that_fails_is_told_in_one_sentence_and_leaves_no_file(
    no_gpu: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert record("raises") == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert "mat1 and mat2 shapes" in last and "recording.log" in last
    assert not Path("out/trace.npz").exists()


def test_an_earlier_recording_is_replaced_only_with_force(
    no_gpu: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert record("trains", "--", "2") == 0
    before = Path("out/trace.npz").read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(preflight, "probe", lambda *asked, **more: pytest.fail("something ran"))
        capsys.readouterr()
        assert record("trains", "--", "3") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "out/trace.npz exists already; replace it with --force" in line
    assert Path("out/trace.npz").read_bytes() == before
    assert record("trains", "--force", "--", "3") == 0
    assert len(trace.load("out/trace.npz").step_ends) == 3


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--script", "nowhere.py", "-o", "t.npz"], "There is no script nowhere.py."),
        (["--script", ".", "-o", "t.npz"], "is a directory"),
        (["--script", "broken.py", "-o", "t.npz"], "has a syntax error"),
        (["--script", "sound.py", "-o", "."], "cannot be written"),
        (["--script", "sound.py", "-o", "t.npz", "--settings", "max_split_size_mb:1"], "max_split_size_mb:1"),
        (["--script", "sound.py", "-o", "t.npz", "--gpu", "large"], "'large' is neither a size"),
    ],
)
def test_bad_input_gets_one_sentence_and_status_2(
    arguments: list[str], sentence: str, no_gpu: None, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("broken.py").write_text("def f(:\n")
    Path("sound.py").write_text("import torch\n")
    assert main(["record", *arguments]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert sentence in lines[-1] and "Traceback" not in "".join(lines)


def test_an_interpreter_tells_its_facts() -> None:
    torch = pytest.importorskip("torch")
    found = probe()
    assert found.torch == torch.__version__
    assert found.usable is False and found.why_not
