"""The launcher: imports torch once, then starts one process a trial, watches it, and clears up after it.

A forked child starts in milliseconds where `import torch` takes seconds. The launcher itself never touches
CUDA (a fork after CUDA's initialisation is unusable) and runs no torch operation (threads do not survive a
fork). Where forking is not safe, every trial gets a fresh interpreter instead, and `ready` says why.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import threading
import time
import traceback
from typing import Any, BinaryIO

from . import child
from .processes import Child, adopt_orphans, die_with_parent, outlive_parent

LOG_LIMIT_BYTES = 1 << 30
"""A script that prints more than this is stopped: it would fill the disk."""

Document = dict[str, Any]


def main(arguments: list[str]) -> None:
    """Serve requests until the parent closes our stdin or dies."""
    parent = os.getppid()
    # Importing torch takes seconds, in which nobody listens for the parent's end, and nobody is left behind.
    die_with_parent(parent)
    requests, answers = _set_aside_standard_streams()
    adopt_orphans()
    why_not = "asked for a fresh process per trial" if "--fresh" in arguments else reason_not_to_fork()
    outlive_parent()
    _say(answers, {"ready": {"forks": why_not is None, "why_not": why_not}})
    while True:
        line = requests.readline()
        if not line:
            os._exit(0)  # taking torch apart takes seconds
        request = json.loads(line)
        _say(answers, {"finished": _Trial(request, requests, answers, parent, why_not is None).run()})


def reason_not_to_fork() -> str | None:
    """Import torch and say why its processes cannot be forked; None when they can."""
    if sys.platform != "linux":
        return "forking a process that has loaded torch is only safe on Linux"
    import torch

    # The first optimizer that a script makes imports this, for a second or two: do it once.
    with contextlib.suppress(Exception):
        import torch._dynamo
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return "importing torch initialised CUDA, which does not survive a fork"
    if not child.can_apply_settings(torch):
        return f"torch {torch.__version__} offers no way to set the allocator after import"
    # A child for nothing: it knows whether CUDA would refuse to work in it, and libraries that can live with
    # forks (OpenBLAS) end their threads before the first one, to start them again when needed.
    pid = os.fork()
    if pid == 0:
        os._exit(int(torch.cuda._is_in_bad_fork()))
    if os.waitpid(pid, 0)[1] != 0:
        return "importing torch called the CUDA driver, which does not survive a fork"
    threads = max(threading.active_count(), len(os.listdir("/proc/self/task")))
    return (
        None
        if threads == 1
        else f"importing torch started {threads - 1} threads, which do not survive a fork"
    )


def _set_aside_standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """Our own copies of stdin and stdout; in their place /dev/null and stderr."""
    requests, answers = os.fdopen(os.dup(0), "rb", 0), os.fdopen(os.dup(1), "wb", 0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return requests, answers


def _say(answers: BinaryIO, document: Document) -> None:
    answers.write(json.dumps(document).encode() + b"\n")


class _Trial:
    """One request: start, watch, clear up."""

    def __init__(
        self, request: Document, requests: BinaryIO, answers: BinaryIO, parent: int, forks: bool
    ) -> None:
        self.request = request
        self.requests = requests
        self.answers = answers
        self.parent = parent
        self.forks = forks
        self.steps = 0
        self.answer: Document | None = None
        self.unread = b""

    def run(self) -> Document:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        try:
            self.log = os.open(self.request["log"], flags, 0o644)
        except OSError as error:
            return self._answer_for_it(
                ("crashed", f"The log {error.filename} cannot be written: {error.strerror}.")
            )
        self.pipe, writer = os.pipe()
        self.child = Child(self._start(writer))
        os.close(writer)
        try:
            _say(self.answers, {"started": self.child.pid})
            reason = self._watch()
        finally:
            self.child.end()
            self._read(wait=0)
            os.close(self.pipe)
            os.close(self.log)
        return self.answer or self._answer_for_it(reason)

    def _start(self, writer: int) -> int:
        launcher = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        try:
            os.setsid()
            die_with_parent(launcher)
            os.dup2(self.log, 1)
            os.dup2(self.log, 2)
            os.close(self.log)
            os.close(self.pipe)
            self.requests.close()
            self.answers.close()
            if self.forks:
                child.run(self.request, writer, launcher)
            else:
                child.run_in_fresh_process(self.request, writer, launcher)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(70)

    def _watch(self) -> tuple[str, str]:
        """Wait for the answer; else (outcome, reason) of an ending without one."""
        deadline = time.monotonic() + self.request["timeout_seconds"]
        while True:
            self._read(wait=0.05)
            if self.answer is not None:
                self.child.wait(10)
                return "", ""
            status = self.child.poll()
            if status is not None:
                return "crashed", self._reason_of(status)
            if time.monotonic() > deadline:
                limit = f"{self.request['timeout_seconds']:g} s"
                return "timed_out", f"The script was stopped after {limit}, {self._after_steps()}."
            if os.fstat(self.log).st_size > LOG_LIMIT_BYTES:
                return "crashed", "The script printed more than 1 GiB and was stopped; make it print less."
            if os.getppid() != self.parent:
                self._abandon()

    def _read(self, wait: float) -> None:
        """Take in what the child wrote; give up everything when the parent has closed our input."""
        requests = self.requests.fileno()
        ready, _, _ = select.select([self.pipe, requests], [], [], wait)
        if requests in ready and wait:
            self._abandon()  # the parent never sends a request before the last is answered: this is the end
        if self.pipe not in ready:
            return
        data = os.read(self.pipe, 1 << 16)
        if not data and wait:
            time.sleep(wait)  # the child has closed its end and is about to exit
        *lines, self.unread = (self.unread + data).split(b"\n")
        for line in lines:
            document = json.loads(line)
            self.steps = document.get("step", self.steps)
            self.answer = document.get("answer", self.answer)
        if data and not wait:
            self._read(wait=0)

    def _abandon(self) -> None:
        self.child.end()
        os._exit(1)

    def _answer_for_it(self, ending: tuple[str, str]) -> Document:
        outcome, reason = ending
        return {"outcome": outcome, "reason": reason, "step_count": self.steps}

    def _after_steps(self) -> str:
        return (
            f"after {self.steps} step{'s' if self.steps != 1 else ''}"
            if self.steps
            else "before its first step ended"
        )

    def _reason_of(self, status: int) -> str:
        if not os.WIFSIGNALED(status):
            code = os.WEXITSTATUS(status)
            return f"The script ended its own process with exit status {code}, {self._after_steps()}."
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        hint = " (out of host memory, perhaps)" if name == "SIGKILL" else ""
        return f"The script was killed by {name}{hint}, {self._after_steps()}."
