"""Many replays at once, on threads: `model` runs outside Python's lock and `native` in other processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from autotune.allocator.engines import open_engine
from autotune.allocator.result import Engine

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Progress = Callable[[int], None]
"""Called in the caller's thread with the number of settings done so far."""


def on_all_cores(
    task: Callable[[Engine, Item], Answer],
    items: Sequence[Item],
    *,
    engine: str,
    workers: int | None,
    progress: Progress | None,
) -> list[Answer]:
    """`task(engine, item)` for each item, in the items' order; all workers share one engine.

    The first exception of a task is raised once the tasks already begun have ended.
    """
    workers = max(1, min(workers or usable_cores(), len(items)))
    with open_engine(engine) as opened:
        pool = ThreadPoolExecutor(workers)
        try:
            futures = [pool.submit(task, opened, item) for item in items]
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                if progress is not None:
                    progress(done)
            return [future.result() for future in futures]
        finally:
            pool.shutdown(cancel_futures=True)


def usable_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
