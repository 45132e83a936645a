"""Scripts as users write them, on a GPU that is not there: they run, and what they ask for is seen."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from autotune import trace
from autotune.allocator.native.build import stand_in_environment
from autotune.cli import main
from autotune.errors import UsageError
from autotune.trace import Trace

SCRIPTS = Path(__file__).parent.parent / "scripts"
MIB = 1 << 20

pytestmark = pytest.mark.native
Record = Callable[..., Trace]


@pytest.fixture(autouse=True, scope="module")
def possible() -> None:
    torch = pytest.importorskip("torch")
    if not torch.version.cuda or torch.cuda.is_available():
        pytest.skip("needs a CUDA build of torch, and no GPU")
    try:
        stand_in_environment(1 << 30)
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    """Record a script into a trace; everything it does happens in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def record_script(name: str, *more: str) -> Trace:
        options = ["--warmup", "1", "--steps", "9", "--gpu", "A100-40GB", *more]
        assert main(["record", "--script", str(SCRIPTS / f"{name}.py"), "-o", "trace.npz", *options]) == 0
        return trace.load("trace.npz")

    return record_script


def printed() -> str:
    return next(Path("autotune-runs").rglob("recording.log")).read_text()


def is_phantom(found: Trace) -> bool:
    return found.recording.notes[0].startswith("Recorded on a phantom NVIDIA A100-SXM4-40GB")


def test_a_plain_loop_with_everything_around_it(record: Record, capsys: pytest.CaptureFixture[str]) -> None:
    Path("model.pt").write_text("a good checkpoint")
    found = record("phantom_loop", "--", "model.pt")
    assert is_phantom(found) and found.recording.estimated and len(found.step_ends) == 8
    assert found.recording.device_total_bytes == 40_337 * MIB and not found.recording.observed
    assert "NVIDIA A100-SXM4-40GB (8, 0)" in printed()
    assert Path("model.pt").read_text() == "a good checkpoint"
    # The first layer's weight, its gradient and Adam's two states; its copy on the CPU does not count.
    assert np.count_nonzero(found.size[found.is_alloc] == 256 * 1024 * 4) >= 4
    # cuBLAS on an A100: one workspace for the script's thread, one for autograd's.
    assert np.count_nonzero(found.size[found.is_alloc] == 8320 * 1024) == 2
    assert found.num_streams == 2
    notes = " ".join(found.recording.notes)
    assert "saves tensors" in notes and "stand-in" in notes and "phantom_loop.py:" in notes
    assert "record_stream" in notes
    assert "estimated" in capsys.readouterr().out


def test_a_checkpoint_that_the_script_writes_in_its_own_way_is_not_emptied(record: Record) -> None:
    Path("model.pkl").write_text("a good checkpoint")
    found = record("phantom_pickle", "--", "model.pkl")
    assert is_phantom(found) and len(found.step_ends) == 3
    assert Path("model.pkl").read_text() == "a good checkpoint"
    assert any("would have overwritten model.pkl" in note for note in found.recording.notes)


def test_mixed_precision_checkpointing_compiling_and_tied_weights(record: Record) -> None:
    found = record("phantom_amp")
    assert is_phantom(found) and len(found.step_ends) == 4
    assert any("torch.compile is bypassed" in note for note in found.recording.notes)
    # The tied weight, its copy in the average, its gradients and Adam's two states, at one time.
    embedding = found.size == 1000 * 128 * 4
    alive = np.cumsum(np.where(embedding, np.where(found.is_alloc, 1, -1), 0))
    assert 5 <= alive.max() <= 7


def test_shapes_that_the_scripts_data_decides_are_known(record: Record) -> None:
    found = record("phantom_masks")
    assert is_phantom(found) and len(found.step_ends) == 3
    assert 24 * 64 * 4 in found.size
    assert any("depend on values" in note for note in found.recording.notes)


def test_a_model_built_on_the_cpu_costs_no_memory_there(record: Record) -> None:
    found = record("phantom_large")
    assert is_phantom(found)
    assert np.count_nonzero(found.size[found.is_alloc] == 8192 * 8192 * 2) >= 40


def test_shapes_that_the_model_decides_are_recorded_on_the_cpu_and_told(
    record: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    found = record("phantom_routes")
    assert not is_phantom(found) and found.recording.estimated and len(found.step_ends) == 3
    said = capsys.readouterr().err
    assert "aten.index.Tensor at phantom_routes.py:10" in said and "on the CPU instead" in said
    assert any("phantom GPU was tried first" in note for note in found.recording.notes)


def test_a_share_can_be_given_for_masks_that_are_not_known(record: Record) -> None:
    found = record("phantom_routes", "--selected", "0.25")
    assert is_phantom(found) and len(found.step_ends) == 3
    assert 8 * 64 * 4 in found.size[found.is_alloc]
    assert any("a share of 0.25 was asked for" in note for note in found.recording.notes)


def test_the_trainer_of_transformers_with_lora(record: Record) -> None:
    pytest.importorskip("peft")
    pytest.importorskip("transformers")
    found = record("phantom_trainer", "--", "out")
    assert is_phantom(found) and len(found.step_ends) == 6
    assert not list(Path("out").rglob("*.safetensors")) and not list(Path("out").rglob("*.pt"))


def test_accelerate(record: Record) -> None:
    pytest.importorskip("accelerate")
    found = record("phantom_accelerate")
    assert is_phantom(found) and len(found.step_ends) == 4
    assert "accuracy" in printed()


def test_a_study_without_a_gpu_takes_the_phantom_and_says_estimated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    script = str(SCRIPTS / "phantom_amp.py")
    assert main(["run", "--script", script, "--trials", "4", "--gpu", "24GiB", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["obtained"] == "estimated"
    assert all(trial["obtained"] == "estimated" for trial in report["trials"])
    assert "step_seconds" not in report["trials"][0]["metrics"]
    table = (SCRIPTS.parents[1] / "studies" / "phantom.md").read_text()
    assert "Median error 0.1 %, worst −12.6 %" in table and "46 comparisons" in table
    (how_wrong,) = [note for note in report["notes"] if "46 comparisons" in note]
    assert "within 0.1 %" in how_wrong and "at worst 12.6 % too low" in how_wrong


def test_a_script_and_its_recording_get_the_same_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    script, answers = ["--script", str(SCRIPTS / "phantom_amp.py"), "--gpu", "24GiB"], []
    assert main(["record", *script, "-o", "trace.npz"]) == 0
    for subject in (script, ["--trace", "trace.npz"]):
        capsys.readouterr()
        assert main(["run", *subject, "--trials", "4", "--study", f"s{len(answers)}"]) == 0
        words = " ".join(capsys.readouterr().out.split())
        answers.append(words[words.index("Use trial") :])
    assert answers[0] == answers[1]
    assert re.search(r"driver time \S+ \S+ (\([^)]*\) )?in [0-9]+ steps?\.", answers[0])


def test_two_recordings_of_one_script_are_compared(
    record: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    record("phantom_routes", "--selected", "0.25")
    Path("trace.npz").rename("quarter.npz")
    record("phantom_routes", "--selected", "1")
    capsys.readouterr()
    assert main(["compare-recordings", "quarter.npz", "trace.npz", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["estimated"] == [True, True]
    assert found["peak_requested_bytes"][0] < found["peak_requested_bytes"][1]
    operators = {one["name"]: one for one in found["operators"]}
    assert operators["aten::index"]["requested_bytes"][0] < operators["aten::index"]["requested_bytes"][1]
    assert main(["compare-recordings", "quarter.npz", "trace.npz"]) == 0
    assert "aten::mm" in capsys.readouterr().out


def test_finalists_are_checked_on_a_longer_recording_and_verify_records_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script whose peak comes late, and which then is changed so that there is nothing left to save."""
    monkeypatch.chdir(tmp_path)
    script = Path("late.py")
    script.write_text((SCRIPTS / "late_peak.py").read_text())
    words = ["--script", "late.py", "--warmup", "1", "--steps", "4", "--gpu", "24GiB"]
    assert main(["run", *words, "--trials", "3", "--json"]) == 0
    found, told = capsys.readouterr()
    assert "Recording again, with 2 times the steps" in told
    report = json.loads(found)
    checks = [trial for trial in report["trials"] if trial["role"] == "confirm"]
    peaks = [trial["metrics"]["peak_reserved_bytes"] for trial in (report["trials"][0], checks[0])]
    assert peaks[1] > peaks[0] + 200 * MIB
    assert {trial["obtained"] for trial in checks} == {"estimated"}
    assert main(["report"]) == 0
    assert "With 2 times the steps the peak is higher" in " ".join(capsys.readouterr().out.split())

    assert main(["verify", "--settings", "expandable_segments:True", "--json"]) == 0
    held = json.loads(capsys.readouterr().out)
    assert held["obtained"] == "estimated"
    assert held["found"]["memory"]["ratio"] == pytest.approx(held["claim"]["peak_reserved_ratio"])
    script.write_text(script.read_text().replace("range(9)", "range(0)"))
    assert main(["verify", "--settings", "expandable_segments:True"]) == 1
    found, told = capsys.readouterr()
    assert "late.py has changed since the study" in told
    assert "The claim no longer holds" in found
    assert "the script as it is now" in " ".join(found.split())
