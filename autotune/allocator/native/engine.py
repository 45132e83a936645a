"""Native: the engine that asks PyTorch itself."""

from __future__ import annotations

import sys
import tempfile
import threading
from typing import IO, Any

import numpy as np

from autotune.allocator.native.process import ProcessEnded, WarmProcess
from autotune.allocator.result import DeviceCalls, Engine, ReplayResult
from autotune.errors import UsageError, WorkFailedError
from autotune.measurement import Outcome
from autotune.settings import AllocatorSettings, TorchVersion, parse_torch_version
from autotune.trace.trace import Trace

OLDEST_TORCH: TorchVersion = (2, 6)


class Native:
    """Replays traces through the allocator of an installed torch; use in a `with` block, or call `close`.

    Holds one warm process, in which a child is forked for each replay. If that process is killed, the replays
    under way fail and the next one starts another.

    Args:
        python: the interpreter whose torch to use; empty = this one.

    Raises:
        UsageError: the interpreter has no CUDA build of torch 2.6 or newer, or the machine cannot run the
            stand-in.
    """

    name = "native"

    def __init__(self, python: str = "") -> None:
        self._python = python or sys.executable
        self._lock = threading.Lock()
        self._sent: tuple[Trace, int, IO[bytes]] | None = None
        self._process: WarmProcess | None = None
        try:
            self.torch_version = self._usable_torch(self._warm_process().greeting)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Native:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the warm process and every replay in it. Safe to call twice."""
        with self._lock:
            if self._process is not None:
                self._process.close()
            self._process = None

    def replay(
        self,
        trace: Trace,
        settings: AllocatorSettings,
        *,
        memory_limit: int | None,
        device_total: int,
        torch_version: TorchVersion,
    ) -> ReplayResult:
        """As `Engine.replay`.

        Raises:
            UsageError: `torch_version` is not the installed one.
            WorkFailedError: the allocator itself failed, or its process was killed.
        """
        if torch_version != self.torch_version:
            have, asked = (".".join(map(str, version)) for version in (self.torch_version, torch_version))
            raise UsageError(
                f"--engine native replays with the installed torch {have}, not with {asked}; "
                f"use --torch {have} or --engine model."
            )
        key, file = self._file_of(trace)
        answer = self._ask(
            {
                "trace": key,
                "settings": str(settings),
                "memory_limit": memory_limit,
                "device_total": device_total,
            },
            file,
        )
        return _result(answer, trace, settings)

    def _ask(self, request: dict[str, Any], file: IO[bytes]) -> dict[str, Any]:
        process = self._warm_process()
        under = f"under '{request['settings']}'" if request["settings"] else "under the default settings"
        try:
            answer = process.ask(request, [file.fileno()])
        except ProcessEnded as words:
            if process.alive:
                raise WorkFailedError(f"PyTorch's allocator crashed {under} ({words}).") from None
            raise WorkFailedError(
                f"The process that runs PyTorch's allocator was ended from outside ({words}); run it again."
            ) from None
        if "error" in answer:
            raise WorkFailedError(f"PyTorch's allocator failed {under} ({answer['error']}).")
        return answer

    def _warm_process(self) -> WarmProcess:
        with self._lock:
            if self._process is not None and not self._process.alive:
                self._process.close()
                self._process = None
            if self._process is None:
                self._process = self._start()
            return self._process

    def _start(self) -> WarmProcess:
        try:
            return WarmProcess(self._python)
        except OSError as error:
            raise UsageError(
                f"--engine native cannot start {self._python} ({error.strerror}); use --engine model."
            ) from None
        except ProcessEnded as words:
            raise UsageError(
                f"--engine native cannot import torch in {self._python} ({words}); use --engine model."
            ) from None

    def _usable_torch(self, greeting: dict[str, Any]) -> TorchVersion:
        version = parse_torch_version(greeting["torch"])
        if greeting["cuda"] and greeting["stand_in"] and version >= OLDEST_TORCH:
            return version
        if not greeting["stand_in"]:
            raise UsageError(
                f"--engine native cannot load its stand-in device into {self._python}: either that ignores "
                "LD_PRELOAD, or the cache folder is mounted noexec; set XDG_CACHE_HOME or use --engine model."
            )
        raise UsageError(
            f"--engine native needs a CUDA build of torch 2.6 or newer, and {self._python} has torch "
            f"{greeting['torch']}{'' if greeting['cuda'] else ' without CUDA'}; use --engine model."
        )

    def _file_of(self, trace: Trace) -> tuple[int, IO[bytes]]:
        """An open file with the trace's columns, and a number that stands for it; the last one is kept."""
        with self._lock:
            if self._sent is None or self._sent[0] is not trace:
                file = tempfile.TemporaryFile()  # noqa: SIM115, it lives as long as the trace is in use
                for column in (trace.is_alloc, trace.block, trace.size, trace.stream, trace.pool):
                    file.write(np.ascontiguousarray(column, np.int64).data)
                file.flush()
                self._sent = trace, self._sent[1] + 1 if self._sent else 0, file
            return self._sent[1:]


def _result(answer: dict[str, Any], trace: Trace, settings: AllocatorSettings) -> ReplayResult:
    failed: int | None = answer.pop("failed_operation")
    operation, kind, size = answer.pop("device_calls")
    return ReplayResult(
        settings=settings,
        engine=Native.name,
        outcome=Outcome.COMPLETED if failed is None else Outcome.OUT_OF_MEMORY,
        failed_operation=failed,
        operations=trace.num_operations if failed is None else failed,
        device_calls=DeviceCalls(
            operation=np.array(operation, np.int64),
            kind=np.array(kind, np.uint8),
            size=np.array(size, np.int64),
        ),
        **answer,
    )


def _conforms(native: Native) -> Engine:
    return native
