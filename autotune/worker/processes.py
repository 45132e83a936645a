"""Processes: die with the parent, and leave nobody behind.

A trial's process leads its own session and process group, so its children are reached by one signal.
Those that left the group (daemons) are adopted by the launcher, a subreaper, when their parent dies, and are
killed by it. Without Linux's prctl only the group is reached.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

GRACE_SECONDS = 0.5
"""What a trial's remaining children get between SIGTERM and SIGKILL.

Python's multiprocessing resource tracker removes leaked semaphores when all its clients have gone.
"""


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when `parent` (its parent) dies."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel was asked
        os._exit(1)


def outlive_parent() -> None:
    """Take that back: there is something to clear up first."""
    _prctl(PR_SET_PDEATHSIG, 0)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent dies, wherever they moved."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


class Child:
    """A process we forked and everything it started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.status: int | None = None
        """Wait status; None while it runs."""

    def poll(self) -> int | None:
        """Reap whatever has ended; the wait status of the child itself, or None while it runs."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return self.status
            if pid == 0:
                return self.status
            if pid == self.pid:
                self.status = status

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` for the child to end; whether it did."""
        deadline = time.monotonic() + seconds
        while self.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        return self.status is not None

    def end(self) -> None:
        """Kill the child, then its group, then its adopted descendants; return when all have gone.

        The script's own process gets SIGKILL at once: a handler for SIGTERM may save a half-trained model.
        """
        if self.poll() is None:
            _kill(self.pid, signal.SIGKILL)
            self.wait(30)
        deadline = time.monotonic() + GRACE_SECONDS
        if _kill_group(self.pid, signal.SIGTERM):
            while _kill_group(self.pid, 0) and time.monotonic() < deadline:
                self.poll()
                time.sleep(0.005)
            _kill_group(self.pid, signal.SIGKILL)
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            self.poll()
            remaining = _children()
            if not remaining and not _kill_group(self.pid, signal.SIGKILL):
                return
            for pid in remaining:
                _kill(pid, signal.SIGKILL)
            time.sleep(0.002)


def _children() -> list[int]:
    """Direct children of this process, adopted ones included."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def _kill_group(group: int, number: int) -> bool:
    """Signal a process group; False when nobody is left in it."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS says so of a group of zombies
        return False
    return True
