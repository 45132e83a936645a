"""Steps: where one ends. An optimizer's step ends one, or the script says so with `autotune.step()`."""

from __future__ import annotations

import functools
import importlib
import os
import time
import weakref
from collections.abc import Callable
from typing import Any

Boundary = dict[str, Any]
"""What was noted at the end of one step; `seconds` is the step's duration."""

_current: Steps | None = None


class Steps:
    """Counts steps, and times them.

    A step ends each time the first optimizer that stepped does so again: a script with two optimizers (a GAN)
    makes one step an iteration. Should that optimizer be deleted, the next one that steps takes its place.
    Once the script calls `autotune.step()`, only that counts.
    """

    def __init__(self, device: Any, at_end: Callable[[Boundary], None]) -> None:
        """`device` synchronises and takes notes at a boundary; `at_end` is told of each step that ended."""
        self.boundaries: list[Boundary] = []
        self.optimizer_made = False
        self._device = device
        self._at_end = at_end
        self._pid = os.getpid()
        self._explicit = False
        self._first: weakref.ref[Any] | None = None
        self._script_began = self._began = time.perf_counter()

    def watch(self, torch: Any) -> None:
        """Hook into every optimizer, made and to be made, and into `autotune.step()`."""
        global _current
        _current = self
        # torch.optim deletes the name of this submodule from itself.
        module = importlib.import_module("torch.optim.optimizer")
        module.register_optimizer_step_post_hook(self._optimizer_stepped)
        original = torch.optim.Optimizer.__init__

        @functools.wraps(original)
        def note_optimizer(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            self.optimizer_made = True
            original(optimizer, *args, **kwargs)

        torch.optim.Optimizer.__init__ = note_optimizer

    def begin(self) -> None:
        """The script's first line is next."""
        self._script_began = self._began = time.perf_counter()

    def mark(self) -> None:
        """A step ends here, says the script. What optimizers ended until now was part of its first step."""
        if not self._explicit and os.getpid() == self._pid:
            self._explicit = True
            self.boundaries.clear()
            self._began = self._script_began
        self._end_step()

    def _optimizer_stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._explicit:
            return
        if self._first is None or self._first() is None:
            self._first = weakref.ref(optimizer)
        if self._first() is optimizer:
            self._end_step()

    def _end_step(self) -> None:
        # A process that the script forked has its own life, and a CUDA graph being captured does nothing yet.
        if os.getpid() != self._pid or self._device.is_capturing():
            return
        self._device.synchronize()
        seconds = time.perf_counter() - self._began
        self.boundaries.append({"seconds": seconds, **self._device.boundary()})
        self._at_end(self.boundaries[-1])
        self._began = time.perf_counter()


def mark() -> None:
    """End a step of the run in progress, if there is one."""
    if _current is not None:
        _current.mark()
