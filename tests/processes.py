"""Finding processes by a mark in their environment, which everything that they start inherits."""

from __future__ import annotations

import time

import psutil

MARK = "AUTOTUNE_TEST_MARK"


def marked(value: str, *, variable: str = MARK) -> list[psutil.Process]:
    """Living processes (zombies aside) that carry the mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(variable) == value and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def wait_until_left(value: str, number: int, *, seconds: float = 20.0) -> list[psutil.Process]:
    """What has the mark once `number` processes have it, or after `seconds`: ended children linger."""
    deadline = time.monotonic() + seconds
    while len(left := marked(value)) != number and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def wait_until_gone(value: str) -> list[psutil.Process]:
    """What is left with the mark after some seconds; empty as soon as nothing is."""
    return wait_until_left(value, 0)
