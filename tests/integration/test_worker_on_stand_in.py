"""The worker's CUDA side without a GPU: PyTorch's own allocator on a stand-in that cannot compute."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autotune import trace
from autotune.errors import UsageError
from autotune.measurement import Measurement, Obtained, Outcome
from autotune.settings import AllocatorSettings
from autotune.trial.facts import Facts
from autotune.trial.recording import record
from autotune.trial.runner import Job
from autotune.trial.worker_runner import WorkerRunner
from tests.launchers import one_launcher

SCRIPTS = Path(__file__).parent.parent / "scripts"
DEVICE_BYTES = 8 << 30
MIB = 1 << 20

pytestmark = pytest.mark.native
Measure = Callable[..., Measurement]


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Facts]:
    """Facts of the stand-in, and one launcher for every test."""
    from autotune.allocator.native.build import stand_in_environment

    torch = pytest.importorskip("torch")
    if not torch.version.cuda:
        pytest.skip("needs a CUDA build of torch")
    with pytest.MonkeyPatch.context() as patch:
        try:
            for name, value in stand_in_environment(DEVICE_BYTES).items():
                patch.setenv(name, value)
        except UsageError as error:
            pytest.skip(str(error))
        with one_launcher(tmp_path_factory.mktemp("worker")):
            yield Facts(
                python=sys.executable, python_version="3", torch=torch.__version__, usable=True,
                gpu="stand-in", device_total_bytes=DEVICE_BYTES,
            )  # fmt: skip


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(
        script=SCRIPTS / "allocates_on_gpu.py", arguments=("6", "100"), warmup_steps=2, measured_steps=3,
        directory=tmp_path, timeout_seconds=60,
    )  # fmt: skip


@pytest.fixture
def measure(facts: Facts, job: Job) -> Iterator[Measure]:
    runners = []

    def measure_job(settings: str, **changes: object) -> Measurement:
        runners.append(WorkerRunner(replace(job, **changes), facts))  # type: ignore[arg-type]
        return runners[-1].measure(AllocatorSettings.parse(settings), number=7)

    yield measure_job
    for runner in runners:
        runner.close()


def test_a_trial_knows_its_peaks_counts_and_steps(measure: Measure, tmp_path: Path) -> None:
    found = measure("")
    assert found.outcome is Outcome.COMPLETED and found.obtained is Obtained.MEASURED
    assert found.settings_in_effect == ""
    assert len(found.step_seconds) == 3 and len(found.step_peak_reserved_bytes) == 5
    assert found.peak_reserved_bytes == found.step_peak_reserved_bytes[-1] == 548 * MIB
    assert found.peak_allocated_bytes is not None and found.peak_requested_bytes is not None
    assert found.peak_requested_bytes < found.peak_allocated_bytes < found.peak_reserved_bytes
    assert (found.num_device_alloc, found.steady_device_alloc, found.num_ooms) == (19, 9, 0)
    assert found.startup_seconds is not None and found.startup_seconds > 0
    assert found.log == str(tmp_path / "trial-007.log")
    assert Measurement.from_json(json.loads(json.dumps(found.to_json()))) == found


@pytest.mark.parametrize(
    "settings",
    [
        "expandable_segments:True",
        "max_split_size_mb:32",
        "garbage_collection_threshold:0.8,roundup_power2_divisions:[256:1,512:2,>:8]",
    ],
)
def test_settings_are_in_effect_as_the_allocator_itself_reports(measure: Measure, settings: str) -> None:
    found = measure(settings)
    assert found.outcome is Outcome.COMPLETED
    asked, reported = (
        AllocatorSettings.parse(settings),
        AllocatorSettings.parse(found.settings_in_effect or ""),
    )
    assert reported == asked


def test_a_memory_limit_holds_and_ends_in_out_of_memory(measure: Measure) -> None:
    found = measure("", memory_limit_bytes=300 * MIB)
    assert found.outcome is Outcome.OUT_OF_MEMORY
    assert found.reason is not None and "out of memory" in found.reason
    assert found.peak_reserved_bytes is not None and found.peak_reserved_bytes <= 300 * MIB
    assert found.num_ooms == 1 and found.num_alloc_retries


def test_a_script_that_survives_running_out_completes_and_the_count_tells(measure: Measure) -> None:
    found = measure("", script=SCRIPTS / "survives_out_of_memory.py")
    assert (found.outcome, found.num_ooms) == (Outcome.COMPLETED, 1)


def test_a_script_that_sets_the_variable_itself_is_overridden_and_told(measure: Measure) -> None:
    found = measure("expandable_segments:True", script=SCRIPTS / "sets_the_variable.py", arguments=())
    assert (found.outcome, found.settings_in_effect) == (Outcome.COMPLETED, "expandable_segments:True")
    assert found.whole_run_is_one_step
    assert any("max_split_size_mb:64" in note for note in found.notes)


def test_a_script_that_never_uses_the_gpu_has_nothing_to_measure(measure: Measure) -> None:
    found = measure("", script=SCRIPTS / "never_steps.py")
    assert found.outcome is Outcome.CRASHED
    assert found.reason is not None and "without using the GPU" in found.reason


def test_a_recording_ends_where_memory_ran_out(facts: Facts, job: Job, tmp_path: Path) -> None:
    file = tmp_path / "trace.npz"
    found = record(replace(job, memory_limit_bytes=300 * MIB), facts, file)
    assert found.outcome is Outcome.OUT_OF_MEMORY
    recorded = trace.load(file)
    assert recorded.oom_size == 43 * MIB  # what was asked for; the error says 44, rounded
    assert recorded.recording.memory_fraction == 300 * MIB / DEVICE_BYTES


def test_a_recording_has_every_event_and_the_step_boundaries(facts: Facts, job: Job, tmp_path: Path) -> None:
    file = tmp_path / "trace.npz"
    found = record(job, facts, file, settings=AllocatorSettings(max_split_size_mb=64))
    assert found.outcome is Outcome.COMPLETED
    recorded = trace.load(file)
    # Eight blocks and one that is kept, then eight frees: 17 rows a step.
    assert recorded.step_ends == (17, 34, 51, 68, 85)
    assert recorded.num_operations == 85 and recorded.num_blocks == 45
    about = recorded.recording
    assert about.settings == "max_split_size_mb:64" and not about.estimated
    assert about.device_total_bytes == DEVICE_BYTES
    assert about.observed["peak_reserved_bytes"] == found.peak_reserved_bytes
    assert about.observed["num_device_alloc"] == found.num_device_alloc
