"""One launcher for many tests: starting one takes seconds, mostly to import torch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autotune.trial import worker_runner
from autotune.trial.launcher import Launcher


@contextmanager
def one_launcher(folder: Path) -> Iterator[Launcher]:
    """A launcher that every job started meanwhile uses; it cannot be closed from inside."""
    launcher = Launcher(sys.executable, device=0, log=folder / "worker.log")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launcher, "close", lambda: None)
        patch.setattr(worker_runner, "Launcher", lambda *args, **kwargs: launcher)
        yield launcher
    launcher.close()
