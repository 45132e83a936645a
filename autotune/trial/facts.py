"""Facts: which torch and which GPU a given interpreter has. Asked of a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from autotune.errors import UsageError
from autotune.measurement import Environment
from autotune.trial.gpu import driver_version

WORKER = Path(__file__).parent.parent / "worker"
"""Folder of the child side, run by path."""
PROBE_TIMEOUT_SECONDS = 180.0
"""Importing torch from a cold network disk takes minutes."""

SETTINGS_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What an interpreter can do here."""

    python: str
    """Path of the interpreter."""
    python_version: str
    torch: str | None = None
    """Version of its torch, such as `2.11.0+cu130`; None when it has none."""
    cuda_build: str | None = None
    """CUDA (or ROCm) version that torch was built with."""
    usable: bool = False
    """Whether a kernel ran on the GPU."""
    why_not: str | None = None
    """Why there is no usable GPU, in words that can follow `because`."""
    gpu: str | None = None
    uuid: str | None = None
    driver: str | None = None
    device_total_bytes: int | None = None
    backend: str = "native"
    """Allocator backend that torch chose."""

    @property
    def environment(self) -> Environment:
        """The conditions that measurements made with this interpreter share."""
        return Environment(
            gpu=self.gpu,
            driver=self.driver,
            torch=self.torch,
            python=self.python_version,
            device_total_bytes=self.device_total_bytes,
            backend=self.backend,
        )


def clean_environment(device: int) -> dict[str, str]:
    """Environment for a child that sees one GPU and no allocator settings."""
    environment = {name: value for name, value in os.environ.items() if name not in SETTINGS_VARIABLES}
    return {**environment, "CUDA_VISIBLE_DEVICES": visible_device(device)}


def visible_device(device: int) -> str:
    """What names this process's `device`-th GPU in `CUDA_VISIBLE_DEVICES`.

    Raises:
        UsageError: fewer GPUs than that are visible.
    """
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return str(device)
    names = [name for name in listed.split(",") if name.strip()]
    if not names and device == 0:
        return ""
    if device >= len(names):
        raise UsageError(f"GPU {device} is not visible: CUDA_VISIBLE_DEVICES is '{listed}'.")
    return names[device].strip()


def probe(python: str = "", *, device: int = 0) -> Facts:
    """Ask an interpreter (empty: this one) about its torch and GPU, in a short-lived process.

    Raises:
        UsageError: the interpreter cannot be run.
    """
    python = python or sys.executable
    command = [python, str(WORKER), "probe"]
    try:
        answer = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_TIMEOUT_SECONDS,
            env=clean_environment(device),
            stdin=subprocess.DEVNULL,
        )
    except OSError as error:
        raise UsageError(f"The interpreter {python} cannot be run: {error.strerror}.") from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"{python} did not import torch within {PROBE_TIMEOUT_SECONDS:.0f} s.") from error
    return Facts(python=python, **_read(answer, python))


def _read(answer: subprocess.CompletedProcess[str], python: str) -> dict[str, Any]:
    """The last line is the document; a library may print before it."""
    lines = answer.stdout.strip().splitlines()
    try:
        facts: dict[str, Any] = json.loads(lines[-1])
        known = {item.name for item in fields(Facts)}
        if not isinstance(facts["usable"], bool) or not known >= set(facts):
            raise ValueError
        if not isinstance(facts["torch"], str | None):
            raise ValueError
    except (IndexError, KeyError, TypeError, ValueError):
        last = (answer.stderr.strip().splitlines() or ["it printed something else"])[-1]
        raise UsageError(f"{python} could not be asked for its torch and GPU: {last}") from None
    if facts["usable"]:
        facts["driver"] = driver_version()
    return facts
