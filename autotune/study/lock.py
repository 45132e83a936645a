"""One `run` a study at a time, even when both are started at the same moment, and none after a kill.

The lock is the operating system's (SQLite: on a file beside the database) or the server's (PostgreSQL: an
advisory lock of the session). Either is given back when its process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy
from filelock import FileLock, Timeout
from optuna.storages import RDBStorage

from autotune.errors import StudyError


@contextlib.contextmanager
def hold_study(storage: RDBStorage, name: str) -> Iterator[None]:
    """Hold the study for the time of the block.

    Raises:
        StudyError: another process holds it.
    """
    database = storage.engine.url
    held = (
        _hold_file(Path(database.database or ""), name)
        if database.get_backend_name() == "sqlite"
        else _hold_on_server(storage, name)
    )
    with held:
        yield


@contextlib.contextmanager
def _hold_file(database: Path, name: str) -> Iterator[None]:
    path = database.with_name(f"{database.name}.{_key(name):016x}.lock")
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        with contextlib.suppress(OSError):
            raise _busy(name, path.read_text()) from None
        raise _busy(name, "") from None
    except OSError as error:
        raise StudyError(
            f"{path} cannot be locked ({error.strerror}); check the folder's permissions."
        ) from error
    try:
        # Only for the other's message; the lock holds without it.
        with contextlib.suppress(OSError):
            path.write_text(str(os.getpid()))
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _hold_on_server(storage: RDBStorage, name: str) -> Iterator[None]:
    # A pool of its own: the lock lives as long as this one connection.
    engine = sqlalchemy.create_engine(storage.engine.url, poolclass=sqlalchemy.NullPool)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        key = _key(name) - (1 << 63)
        asked = connection.execute(sqlalchemy.text("SELECT pg_try_advisory_lock(:key)"), {"key": key})
        if not asked.scalar():
            raise _busy(name, "")
        yield


def _key(name: str) -> int:
    """64 bits that stand for the study's name."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")


def _busy(name: str, process: str) -> StudyError:
    who = f"process {process}" if process.strip().isdigit() else "another process"
    return StudyError(f"Study '{name}' is being run by {who}; wait until it ends, or use --study NEWNAME.")
