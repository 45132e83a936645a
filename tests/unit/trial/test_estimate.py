"""Which way an estimate is made, and what is said about it: the worker is a double."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autotune.allocator.devices import card
from autotune.settings import AllocatorSettings
from autotune.trial import estimate as estimates
from autotune.trial.estimate import estimate
from autotune.trial.facts import Facts
from autotune.trial.phantom import Phantom, why_no_phantom
from autotune.trial.runner import Job

FACTS = Facts(python="python", python_version="3", torch="2.11.0+cu130", cuda_build="13.0", why_not="none")
PEAK = "peak_allocated_bytes"
Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Estimate with a worker that answers `answer` on a phantom GPU, and "completed" on the CPU."""

    def run_with(
        answer: dict[str, Any], why_not: str | None = None, on_cpu: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        sayings: list[str] = []
        runs: list[tuple[bool, int, dict[str, Any]]] = []

        class Double:
            def __init__(self, job: Job, facts: Facts, say: object, *, phantom: Phantom | None) -> None:
                self.phantom, self.steps = phantom, job.warmup_steps + job.measured_steps

            def run(self, settings: AllocatorSettings, **asked: Any) -> dict[str, Any]:
                runs.append((self.phantom is not None, self.steps, asked))
                return answer if self.phantom else on_cpu or {"outcome": "completed"}

            def log(self, name: str) -> Path:
                return tmp_path / name

            def close(self) -> None:
                pass

        monkeypatch.setattr(estimates, "Worker", Double)
        monkeypatch.setattr(estimates, "why_no_phantom", lambda facts: why_not)
        found = estimate(
            Job(script=Path("train.py")), FACTS, AllocatorSettings(), "trace.npz",
            card=card("24GiB"), selected=None, log="log", say=sayings.append,
        )  # fmt: skip
        return {"answer": found, "said": " ".join(sayings), "runs": runs}

    return run_with


def test_a_phantom_that_works_is_all_there_is(run: Run) -> None:
    found = run({"outcome": "completed", "phantom_allocations": 7})
    assert [phantom for phantom, _, _ in found["runs"]] == [True]
    assert "phantom GPU of 24.0 GiB" in found["said"]
    assert found["runs"][0][2]["device_total_bytes"] == 24 << 30


@pytest.mark.parametrize(
    "answer",
    [
        {"outcome": "crashed", "reason": "A phantom GPU cannot go on with x.", "phantom_allocations": 7},
        {"outcome": "crashed", "reason": "TypeError: something about fakes", "phantom_allocations": 7},
        {"outcome": "crashed", "reason": "The script was killed by SIGSEGV, after 1 step."},
        {"outcome": "completed", "phantom_allocations": 0},
        {"outcome": "crashed", "reason": "RuntimeError: No CUDA GPUs", "phantom_allocations": 0},
        {
            "outcome": "crashed",
            "reason": "The script ended without a step and without using the GPU; there is nothing to tune.",
            "phantom_allocations": 0,
        },
    ],
)
def test_what_a_phantom_cannot_do_runs_on_the_cpu_for_a_few_steps(answer: dict[str, Any], run: Run) -> None:
    found = run(answer)
    assert [(phantom, steps) for phantom, steps, _ in found["runs"]] == [(True, 25), (False, 5)]
    assert "on the CPU instead" in found["said"]
    assert found["runs"][1][2]["notes"][0].startswith("A phantom GPU was tried first: ")


@pytest.mark.parametrize(
    "answer",
    [
        {"outcome": "crashed", "reason": "The script ended with sys.exit(2)."},
        {"outcome": "crashed", "reason": "The script ended with sys.exit(2).", "phantom_allocations": 0},
        {"outcome": "crashed", "reason": "RuntimeError: boom in my script", "phantom_allocations": 0},
        {"outcome": "timed_out", "reason": "The script was stopped after 600 s."},
        {"outcome": "out_of_memory", "reason": "OutOfMemoryError: CUDA out of memory."},
    ],
)
def test_what_the_script_would_do_anywhere_is_not_tried_again(answer: dict[str, Any], run: Run) -> None:
    found = run(answer)
    assert len(found["runs"]) == 1 and found["answer"] == answer


@pytest.mark.parametrize(
    ("on_cpu", "said"),
    [
        ("The script was killed.", "The script was killed. Before that, on a phantom GPU: TypeError: boom."),
        ("TypeError: boom", "TypeError: boom"),
    ],
)
def test_a_failure_on_the_cpu_does_not_hide_the_one_on_the_phantom(on_cpu: str, said: str, run: Run) -> None:
    found = run(
        {"outcome": "crashed", "reason": "TypeError: boom", "phantom_allocations": 7},
        on_cpu={"outcome": "crashed", "reason": on_cpu},
    )
    assert "TypeError: boom. Running the script itself" in found["said"]
    assert found["answer"]["reason"] == said


def test_a_script_too_large_for_this_machine_is_not_run_on_its_cpu(run: Run) -> None:
    reason = "A phantom GPU cannot go on with aten.nonzero."
    found = run({
        "outcome": "crashed", "reason": reason, "phantom_allocations": 7, "peaks": {PEAK: 1 << 50}
    })  # fmt: skip
    assert len(found["runs"]) == 1
    assert found["answer"]["reason"].startswith(reason) and "--selected" in found["answer"]["reason"]


def test_without_a_phantom_the_whole_recording_is_made_on_the_cpu(run: Run) -> None:
    found = run({}, why_not="there is no C compiler")
    assert [(phantom, steps) for phantom, steps, _ in found["runs"]] == [(False, 25)]
    assert "there is no C compiler" in found["said"]


def test_a_torch_without_cuda_has_no_phantom() -> None:
    facts = Facts(python="python", python_version="3", torch="2.11.0+cpu")
    assert why_no_phantom(facts) == "torch 2.11.0+cpu is built without CUDA"
