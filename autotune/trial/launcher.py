"""Launcher: the parent's handle on a worker process, which starts a child a trial and clears up after it."""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from autotune.trial.facts import WORKER, clean_environment

READY_SECONDS = 300.0
"""Importing torch from a cold network disk takes minutes."""
MARGIN_SECONDS = 60.0
"""How long after a trial's own time limit the worker may take to kill it and answer."""
TOKEN_VARIABLE = "AUTOTUNE_WORKER"
"""In the environment of everything a worker starts, so that a last sweep finds it."""


NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


class LauncherDied(Exception):
    """The worker process ended, hung, or wrote nonsense; everything it started has been killed."""


class Launcher:
    """A worker process. It dies when this process does, however that happens.

    Args:
        python: interpreter that runs scripts.
        device: index of the GPU, as CUDA numbers it for this process.
        log: file for what the worker itself prints.
        fresh: start a new interpreter a trial even where forking would be safe.
        hash_seed: seed of Python's string hashes; None leaves it to the environment.
        environment: variables besides those of this process.
    """

    def __init__(
        self,
        python: str,
        *,
        device: int,
        log: Path,
        fresh: bool = False,
        hash_seed: int | None = None,
        environment: Mapping[str, str] = NO_VARIABLES,
    ) -> None:
        self._token = secrets.token_hex(8)
        environment = {**clean_environment(device), **environment, TOKEN_VARIABLE: self._token}
        if hash_seed is not None:
            environment.setdefault("PYTHONHASHSEED", str(hash_seed % (1 << 32)))
        self._unread = b""
        self._group: int | None = None
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [python, str(WORKER), "serve", *(["--fresh"] if fresh else [])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                start_new_session=True,  # Ctrl-C is for us to handle
                bufsize=0,
            )
        answer = self._receive(READY_SECONDS)
        try:
            self.why_not_forked: str | None = answer["ready"]["why_not"]
        except (KeyError, TypeError) as error:
            self._die(error)
        """Why every trial gets a fresh interpreter; None when trials are forked."""

    @property
    def pid(self) -> int:
        """Process id of the worker."""
        return self._process.pid

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """One trial: its answer, with `launched` (monotonic seconds) added.

        Raises:
            LauncherDied: the worker ended instead of answering.
        """
        launched = time.monotonic()
        assert self._process.stdin is not None
        try:
            data = json.dumps(request).encode() + b"\n"
            while data:
                data = data[self._process.stdin.write(data) or 0 :]
        except OSError as error:
            self._die(error)
        limit = request["timeout_seconds"] + MARGIN_SECONDS
        while True:
            document = self._receive(limit)
            if "started" in document:
                self._group = document["started"]
            if "finished" in document:
                self._group = None
                return {"launched": launched, **document["finished"]}

    def _receive(self, seconds: float) -> dict[str, Any]:
        """The next document, waited for at most `seconds`."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + seconds
        while b"\n" not in self._unread:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self._process.stdout.fileno(), 1 << 16) if ready else b""
            if not data:
                self._die(None if ready else TimeoutError(f"no answer within {seconds:.0f} s"))
            self._unread += data
        line, self._unread = self._unread.split(b"\n", 1)
        try:
            document: dict[str, Any] = json.loads(line)
        except ValueError as error:
            self._die(error)
        return document

    def _die(self, cause: Exception | None) -> None:
        with suppress(OSError):
            self._process.kill()
        status = self._process.wait()
        self._sweep()
        raise LauncherDied(str(cause) if cause else f"the worker ended with status {status}")

    def close(self) -> None:
        """End the worker and, with it, a trial in progress. Safe to call twice."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        try:
            self._process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            self._sweep()

    def _sweep(self) -> None:
        """After a worker that could not clear up: kill what carries its token."""
        import psutil

        if self._group is not None:
            with suppress(OSError):
                os.killpg(self._group, signal.SIGKILL)
            self._group = None
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if process.environ().get(TOKEN_VARIABLE) == self._token:
                    process.kill()
