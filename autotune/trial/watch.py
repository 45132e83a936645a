"""What else was going on during a trial: lowered clocks, a busy CPU. Looked at from outside, now and then."""

from __future__ import annotations

import threading
from typing import Self

from autotune.trial.gpu import SharedGpu

EVERY_SECONDS = 0.5


class Watch:
    """Watches for as long as its `with` block lasts."""

    def __init__(self, gpu: SharedGpu) -> None:
        self.throttled: tuple[str, ...] = ()
        """Why clocks were low, each reason once."""
        self.cpu_busy: float | None = None
        """Share of all cores that was busy; None until the block has ended."""
        self._gpu = gpu
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        import psutil

        psutil.cpu_percent()  # from here on
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        import psutil

        self._over.set()
        self._thread.join()
        self.cpu_busy = psutil.cpu_percent() / 100

    def _look(self) -> None:
        while not self._over.wait(EVERY_SECONDS):
            self.throttled = tuple(dict.fromkeys((*self.throttled, *self._gpu.throttled())))
