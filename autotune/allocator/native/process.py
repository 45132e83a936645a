"""The warm process of the native engine, as seen from this one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autotune.allocator.native.build import stand_in_environment

SERVER = Path(__file__).with_name("server.py")
ALLOCATOR_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING")
GREETING_BYTES = 1 << 12


class ProcessEnded(Exception):
    """No answer came: the process that should have given it is gone. The text is the last that it said."""


class WarmProcess:
    """An interpreter that has imported torch on the stand-in device, and forks a child for every request.

    A request travels with the file descriptors it needs, one of them the way back for its answer; so many
    can be under way at one time. The process ends when its socket closes, also when this process is killed.

    Args:
        python: the interpreter.

    Raises:
        UsageError: the machine cannot build or use the stand-in.
        OSError: there is no such interpreter.
        ProcessEnded: it cannot import torch.
    """

    def __init__(self, python: str) -> None:
        environment = {**os.environ, **stand_in_environment(1 << 30)}
        for name in ALLOCATOR_VARIABLES:
            environment.pop(name, None)
        self._said = tempfile.TemporaryFile()  # noqa: SIM115, closed by close()
        self._sending = threading.Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [python, str(SERVER), str(theirs.fileno())],
                env=environment, pass_fds=[theirs.fileno()], start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=self._said, stderr=self._said,
            )  # fmt: skip
        greeting = self._control.recv(GREETING_BYTES)
        if not greeting:
            words = self._ended()
            self.close()
            raise words
        self.greeting: dict[str, Any] = json.loads(greeting)

    def ask(self, request: dict[str, Any], files: Sequence[int] = ()) -> dict[str, Any]:
        """The answer to a request, which may use the given open files. May be called from several threads.

        Raises:
            ProcessEnded: the child died of the request, or the process itself is gone; `alive` tells.
        """
        ours, theirs = socket.socketpair()
        with ours:
            with theirs, self._sending, contextlib.suppress(OSError):
                socket.send_fds(self._control, [json.dumps(request).encode()], [theirs.fileno(), *files])
            with ours.makefile("rb") as answer:
                text = answer.read()
        if not text:
            raise self._ended()
        parsed: dict[str, Any] = json.loads(text)
        return parsed

    @property
    def alive(self) -> bool:
        """Whether the process can take requests."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the process and its children. Safe to call twice."""
        self._control.close()
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._said.close()

    def _ended(self) -> ProcessEnded:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.5)  # It may be on its way out; a child's end is not its own.
        status = self._process.returncode
        if status is not None and status < 0:
            return ProcessEnded(f"signal {-status}")
        lines = os.pread(self._said.fileno(), 1 << 20, 0).decode(errors="replace").strip().splitlines()
        return ProcessEnded(lines[-1] if lines else "it said nothing")
