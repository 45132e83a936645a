"""Trains in a thread while the main thread is done."""

import threading


def train():
    import trains  # noqa: F401


threading.Thread(target=train).start()
