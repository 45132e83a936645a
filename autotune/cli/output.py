"""Files that a command is told to write: whole or not at all, and never over something of the user's."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from autotune.errors import AutotuneError, UsageError, WorkFailedError, is_full_disk

HTML, PNG = b"<", b"\x89PNG"
"""How the files begin that a report or a sweep may replace: earlier ones of the same kind."""


def may_write(path: Path, begins: bytes) -> None:
    """Refuse a place that holds something else, such as the script, the trace or the database.

    Raises:
        UsageError: a file is there that does not begin like an earlier one of the kind.
    """
    try:
        if path.exists() and not path.is_file():
            return  # a device or a pipe holds nothing, and reading from it may wait for ever
        with path.open("rb") as file:
            found = file.read(len(begins))
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from error
    if found and found != begins:
        raise UsageError(f"{path} exists already and is something else; name another file.")


def cannot_write(path: Path, error: OSError) -> AutotuneError:
    """What to raise."""
    kind = WorkFailedError if is_full_disk(error) else UsageError
    return kind(f"{path} cannot be written: {error.strerror or error}.")


def write_whole(path: Path, content: bytes, *, replace: bool) -> None:
    """Write beside it and put it in place: a full disk leaves what was there, or nothing.

    Raises:
        FileExistsError: there is a file, and it may not be replaced.
        OSError: the file cannot be written.
    """
    if path.exists() and not path.is_file():  # a device or a pipe, /dev/stdout say
        path.write_bytes(content)
        return
    target = path.resolve()  # a link stays one
    descriptor, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".partial")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(partial, 0o666 & ~mask)  # mkstemp makes it the user's alone
        if not replace and target.exists():
            raise FileExistsError(target)
        os.replace(partial, target)
    except BaseException:
        os.unlink(partial)
        raise


def write_page(path: Path, text: str) -> None:
    """An HTML page, in place of an earlier one.

    Raises:
        UsageError: it cannot be written, or something else is there.
        WorkFailedError: the disk is full.
    """
    may_write(path, HTML)
    try:
        write_whole(path, text.encode(), replace=True)
    except OSError as error:
        raise cannot_write(path, error) from error
