"""Recording without a GPU: on a phantom one where that works, else by running the script on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from autotune.allocator.devices import Card
from autotune.errors import as_sentence
from autotune.measurement import Outcome
from autotune.settings import AllocatorSettings
from autotune.trial.facts import Facts
from autotune.trial.phantom import DEFAULT, Phantom, why_no_phantom
from autotune.trial.runner import Job
from autotune.trial.worker_runner import Worker
from autotune.units import format_bytes

Answer = dict[str, Any]
Say = Callable[[str], None]

ENDED_WITHOUT_GPU = "The script ended without a step and without using the GPU"
"""How the worker's sentence begins about a script that may do on the CPU what it would do on a GPU."""
ABOUT_THE_GPU = ("cuda", "gpu", "nvidia", "phantom", "driver", "device")
"""Words of errors that a GPU which is not there may have caused."""
CPU_WARMUP_STEPS, CPU_MEASURED_STEPS = 1, 4
"""Steps of a script that really runs on the CPU, where one takes minutes that takes a second on a GPU."""
CPU_MEMORY_FACTOR = 1.5
"""What a script needs on the CPU, as a multiple of what its tensors would take on a GPU."""


def estimate(
    job: Job,
    facts: Facts,
    settings: AllocatorSettings,
    trace_file: str,
    *,
    card: Card | None,
    selected: float | None,
    log: str,
    say: Say,
) -> Answer:
    """Run the script without a GPU and record what it would ask of one; the worker's answer.

    Args:
        job: what to run.
        facts: of its interpreter, which has no usable GPU.
        settings: what the allocator runs with meanwhile, on a phantom GPU.
        trace_file: where the recording goes.
        card: the GPU that it is for.
        selected: share of a mask's elements that is taken to be True where only a GPU would know.
        log: name of the file with what the script prints.
        say: told which way it is done, and why another way was left.
    """
    card = card or DEFAULT
    asked: dict[str, Any] = {
        "record": trace_file,
        "device_total_bytes": card.total_bytes,
        "selected": selected,
    }
    why_not = why_no_phantom(facts)
    if why_not is None:
        say(f"No usable GPU ({facts.why_not}): recording an estimate on a phantom {card.name}.")
        answer = _run(job, facts, settings, asked, phantom=Phantom(card=card), log=log, say=say)
        why_not = _why_fall_back(answer)
        if why_not is None:
            return answer
        refused = _why_not_on_cpu(answer)
        if refused:
            return {**answer, "reason": f"{why_not} {refused}"}
        say(f"{why_not} Running the script itself on the CPU instead, for a few steps.")
    else:
        say(f"No usable GPU, and no phantom one ({why_not}); recording an estimate on the CPU.")
        return _run(job, facts, settings, asked, phantom=None, log=log, say=say)
    few = replace(
        job,
        warmup_steps=min(job.warmup_steps, CPU_WARMUP_STEPS),
        measured_steps=min(job.measured_steps, CPU_MEASURED_STEPS),
    )
    asked["notes"] = [f"A phantom GPU was tried first: {why_not}"]
    found = _run(few, facts, settings, asked, phantom=None, log=log, say=say)
    return _with_first_cause(found, why_not)


def _run(
    job: Job,
    facts: Facts,
    settings: AllocatorSettings,
    asked: dict[str, Any],
    *,
    phantom: Phantom | None,
    log: str,
    say: Say,
) -> Answer:
    worker = Worker(job, facts, say, phantom=phantom)
    try:
        return worker.run(settings, log=worker.log(log), **asked)
    finally:
        worker.close()


def _why_fall_back(answer: Answer) -> str | None:
    """Why another way should be tried: the phantom GPU could not go on, or something broke on it.

    What the script did by its own decision (an exit, too few steps) it would do on the CPU too; the worker's
    sentences about those begin with its name. So would it raise there what it raised before it put anything
    on the GPU, unless that was about CUDA.
    """
    reason, nothing_there = str(answer.get("reason") or ""), answer.get("phantom_allocations") == 0
    crashed = answer["outcome"] == Outcome.CRASHED
    if nothing_there and (not crashed or reason.startswith(ENDED_WITHOUT_GPU)):
        return "The script puts nothing on a GPU."
    if not crashed:
        return None
    by_decision = reason.startswith("The script ") and "SIGSEGV" not in reason
    its_own = nothing_there and not any(word in reason.lower() for word in ABOUT_THE_GPU)
    return None if by_decision or its_own else as_sentence(reason)


def _with_first_cause(found: Answer, first: str) -> Answer:
    """What failed in both ways failed on the phantom GPU first, which may be why."""
    reason = as_sentence(str(found.get("reason") or ""))
    if found["outcome"] == Outcome.COMPLETED or reason == first:
        return found
    return {**found, "reason": f"{reason} Before that, on a phantom GPU: {first}"}


def _why_not_on_cpu(answer: Answer) -> str | None:
    """Why the script should not be run on this CPU: it would need more memory than there is."""
    import psutil

    needed = CPU_MEMORY_FACTOR * (answer.get("peaks") or {}).get("peak_allocated_bytes", 0)
    available = psutil.virtual_memory().available
    if needed <= available:
        return None
    return (
        f"On the CPU it would need about {format_bytes(needed)}, and {format_bytes(available)} are free; "
        "use a smaller model or batch, give --selected, or record on a GPU."
    )
