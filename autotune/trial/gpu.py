"""The GPU as a thing that processes share: a lock, so that two trials never meet, and who else is on it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from autotune.units import format_bytes

T = TypeVar("T")

THROTTLE_REASONS = {
    0x08: "hardware slowdown",
    0x20: "temperature",
    0x40: "temperature",
    0x80: "power brake",
}
"""Bits of `nvmlDeviceGetCurrentClocksThrottleReasons` (nvml.h); a power cap is normal under full load."""


class SharedGpu:
    """One GPU, by its UUID where torch tells it, else by what names it in `CUDA_VISIBLE_DEVICES`."""

    def __init__(self, name: str, uuid: str | None = None) -> None:
        self._name = name
        self._uuid = uuid if uuid is None or uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"

    @property
    def lock_file(self) -> Path:
        """The file that every autotune of this user locks during a trial on this GPU."""
        folder = Path(tempfile.gettempdir()) / f"autotune-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder / f"gpu-{(self._uuid or self._name).replace('/', '-')}.lock"

    @contextmanager
    def alone(self, say: Callable[[str], None]) -> Iterator[None]:
        """Hold the GPU against other trials; they would share its memory and time, and spoil both."""
        from filelock import FileLock, Timeout

        lock = FileLock(self.lock_file)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            say(f"GPU {self._name} is in use by another autotune; waiting for its trial to end.")
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def tenants(self) -> tuple[str, ...]:
        """Processes on the GPU, as `pid name (MiB)`; ask while none of ours is there. Empty if unknown."""

        def running(nvml: Any) -> tuple[str, ...]:
            processes = nvml.nvmlDeviceGetComputeRunningProcesses(self._handle(nvml))
            return tuple(_describe(process.pid, process.usedGpuMemory) for process in processes)

        return _ask_driver(running) or ()

    def throttled(self) -> tuple[str, ...]:
        """Why the clocks are lower than they could be at this moment; empty if they are not, or unknown."""

        def reasons(nvml: Any) -> tuple[str, ...]:
            bits = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle(nvml))
            return tuple(text for bit, text in THROTTLE_REASONS.items() if bits & bit)

        return _ask_driver(reasons) or ()

    def _handle(self, nvml: Any) -> Any:
        if self._uuid:
            return nvml.nvmlDeviceGetHandleByUUID(self._uuid)
        return nvml.nvmlDeviceGetHandleByIndex(int(self._name))


def driver_version() -> str | None:
    """Version of the NVIDIA driver, such as `580.95.05`; None without one."""

    def version(nvml: Any) -> str:
        answer = nvml.nvmlSystemGetDriverVersion()
        return answer.decode() if isinstance(answer, bytes) else str(answer)

    return _ask_driver(version)


def _ask_driver(question: Callable[[Any], T]) -> T | None:
    """Ask the driver's management library; None without a driver, or about a GPU that it does not know."""
    with suppress(Exception):
        import pynvml

        pynvml.nvmlInit()
        try:
            return question(pynvml)
        finally:
            pynvml.nvmlShutdown()
    return None


def _describe(pid: int, used: int | None) -> str:
    import psutil

    name = "unknown"
    with suppress(psutil.Error):  # of another container, or gone
        name = psutil.Process(pid).name()
    return f"{pid} {name} ({format_bytes(used) if used else 'memory unknown'})"
