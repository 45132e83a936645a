"""The standard streams as commands find them: there, in any encoding, and failing in one way only.

stdout carries results: when it cannot be written, that is work that failed; when its reader has gone
(`| head`), there is nobody left to tell. stderr carries progress, which may get lost without harm.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO, cast

from autotune.errors import WorkFailedError
from autotune.units import printable


class ReaderGoneError(Exception):
    """Nobody reads stdout any more. No BrokenPipeError: rich would end the process with status 1."""


class Results:
    """stdout, whose failures are told apart."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, or say why not."""
        return int(self._guarded(self._stream.write, text) or 0)

    def flush(self) -> None:
        """Flush, or say why not."""
        self._guarded(self._stream.flush)

    def _guarded(self, action: Any, *arguments: Any) -> Any:
        try:
            return action(*arguments)
        except BrokenPipeError:
            silence(self._stream)
            raise ReaderGoneError from None
        except OSError as error:
            silence(self._stream)
            raise WorkFailedError(f"The results cannot be written: {error.strerror}.") from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Progress:
    """stderr, whose failures do not matter."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write if that is possible."""
        try:
            return self._stream.write(text)
        except OSError:
            silence(self._stream)
            return len(text)

    def flush(self) -> None:
        """Flush if that is possible."""
        try:
            self._stream.flush()
        except OSError:
            silence(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def prepare_streams() -> None:
    """Replace streams that are closed, and have what an encoding lacks shown as `?` instead of failing."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115 — for the rest of the process
    for name, guard in (("stdout", Results), ("stderr", Progress)):
        stream = getattr(sys, name)
        if stream is None:
            stream = open(os.devnull, "w")  # noqa: SIM115
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
        if not isinstance(stream, Results | Progress):
            setattr(sys, name, cast(TextIO, guard(stream)))


def say(sentence: str) -> None:
    """Tell whoever watches, on stderr; what a file or a script put into it cannot steer the terminal."""
    print(f"autotune: {printable(sentence)}", file=sys.stderr, flush=True)


def silence(stream: TextIO) -> None:
    """Point a stream at nothing, so that Python's own last flush cannot fail."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):  # not a file of the system's
        pass
