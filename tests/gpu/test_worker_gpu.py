"""The worker on a real GPU: settings, limits, peaks, recording. `make gpu-test` runs them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autotune import allocator, trace
from autotune.measurement import Measurement, Obtained, Outcome
from autotune.settings import AllocatorSettings, parse_torch_version
from autotune.trial.facts import Facts, probe
from autotune.trial.recording import record
from autotune.trial.runner import Job
from autotune.trial.worker_runner import WorkerRunner

SCRIPTS = Path(__file__).parent.parent / "scripts"
MIB = 1 << 20
DEFAULTS = AllocatorSettings()

pytestmark = pytest.mark.gpu
Measure = Callable[..., Measurement]


@pytest.fixture(scope="module")
def facts() -> Facts:
    found = probe()
    if not found.usable:
        pytest.skip(f"no usable GPU: {found.why_not}")
    return found


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return Job(
        script=SCRIPTS / "trains_on_gpu.py", warmup_steps=2, measured_steps=100, timeout_seconds=120,
        directory=tmp_path_factory.mktemp("runs"),
    )  # fmt: skip


@pytest.fixture(scope="module")
def runner(facts: Facts, job: Job) -> Iterator[WorkerRunner]:
    opened = WorkerRunner(job, facts)
    yield opened
    opened.close()


def test_the_facts_name_the_gpu(facts: Facts) -> None:
    assert facts.gpu and facts.driver and facts.device_total_bytes and facts.torch


@pytest.mark.parametrize(
    "settings",
    ["", "expandable_segments:True", "max_split_size_mb:64", "roundup_power2_divisions:[256:1,512:2,>:8]",
     "garbage_collection_threshold:0.8,max_split_size_mb:128"],
)  # fmt: skip
def test_settings_are_in_effect_and_the_peaks_are_the_allocators(runner: WorkerRunner, settings: str) -> None:
    asked = AllocatorSettings.parse(settings)
    found = runner.measure(asked, number=1)
    assert (found.outcome, found.obtained) == (Outcome.COMPLETED, Obtained.MEASURED), found.reason
    assert AllocatorSettings.parse(found.settings_in_effect or "").canonical() == asked.canonical()
    told = json.loads(Path(found.log or "").read_text().splitlines()[-1])
    assert {name: getattr(found, name) for name in told} == told
    assert (found.warmup_steps, len(found.step_seconds), len(found.step_peak_reserved_bytes)) == (2, 4, 6)


def test_trials_are_forked_and_start_without_importing_torch_again(runner: WorkerRunner) -> None:
    found = runner.measure(DEFAULTS, number=2)
    launcher = runner._worker._launcher
    assert launcher is not None and launcher.why_not_forked is None
    print(f"start-up {found.startup_seconds:.3f} s, script {found.script_seconds:.2f} s")


def test_equal_trials_give_equal_memory(runner: WorkerRunner) -> None:
    first, second = (runner.measure(DEFAULTS, number=number) for number in (3, 4))
    assert first.peak_reserved_bytes == second.peak_reserved_bytes
    assert first.step_peak_reserved_bytes == second.step_peak_reserved_bytes


def test_a_memory_limit_ends_in_out_of_memory(facts: Facts, job: Job) -> None:
    limited = WorkerRunner(replace(job, memory_limit_bytes=100 * MIB), facts)
    try:
        found = limited.measure(DEFAULTS, number=5)
    finally:
        limited.close()
    assert found.outcome is Outcome.OUT_OF_MEMORY
    assert found.peak_reserved_bytes is not None and found.peak_reserved_bytes <= 100 * MIB
    assert found.num_ooms and found.reason and "out of memory" in found.reason


def test_a_recording_replayed_under_its_own_settings_gives_what_was_observed(
    facts: Facts, job: Job, tmp_path: Path
) -> None:
    file = tmp_path / "trace.npz"
    found = record(job, facts, file)
    assert found.outcome is Outcome.COMPLETED, found.reason
    recorded = trace.load(file)
    assert len(recorded.step_ends) == 6 and recorded.recording.gpu == facts.gpu
    assert list(recorded.step_ends) == sorted(set(recorded.step_ends))
    result = allocator.replay(recorded, DEFAULTS, torch_version=parse_torch_version(facts.torch or ""))
    observed = recorded.recording.observed
    for name in ("peak_requested_bytes", "peak_allocated_bytes", "peak_reserved_bytes", "num_device_alloc"):
        assert getattr(result, name) == observed[name] == getattr(found, name), name


def test_a_fresh_process_a_trial_measures_the_same_memory(
    facts: Facts, job: Job, runner: WorkerRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autotune.trial import worker_runner
    from autotune.trial.launcher import Launcher

    def fresh(*args: object, **kwargs: object) -> Launcher:
        return Launcher(*args, **{**kwargs, "fresh": True})  # type: ignore[arg-type]

    forked = runner.measure(DEFAULTS, number=6)
    monkeypatch.setattr(worker_runner, "Launcher", fresh)
    other = WorkerRunner(job, facts)
    try:
        assert other.measure(DEFAULTS, number=7).peak_reserved_bytes == forked.peak_reserved_bytes
    finally:
        other.close()
