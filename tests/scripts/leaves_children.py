"""Starts children that outlive it: one in its group, one that ignores SIGTERM, a daemon; then trains."""

import os
import signal
import time


def sleep_in_child(*, daemon: bool) -> None:
    if os.fork():
        return
    if daemon:
        os.setsid()
        if os.fork():
            os._exit(0)
    while True:
        time.sleep(0.05)


sleep_in_child(daemon=False)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sleep_in_child(daemon=False)
sleep_in_child(daemon=True)

import trains  # noqa: E402, F401
