"""Opening the database of a study, without harm to databases that belong to somebody else.

optuna creates its tables in whatever it is pointed at, so a database is looked at before optuna sees it: a
file that is no SQLite database, or one with other tables than Optuna's, is refused untouched. Whatever goes
wrong becomes one sentence, and no sentence shows a password.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import logging
import sqlite3
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from autotune.errors import StudyError, WorkFailedError

# What goes wrong reaches us as an exception. Beyond that SQLAlchemy prints tracebacks of connections that it
# could not close, which is what Ctrl-C in the middle of a query, or another thread's connection, leads to.
logging.getLogger("sqlalchemy").setLevel(logging.CRITICAL + 1)

SQLITE = b"SQLite format 3\0"
"""How the file of a database begins."""
LOCK_TIMEOUT_SECONDS = 60
"""How long a write waits for another writer of the same SQLite file; optuna's own 5 s are too short."""
CREATION_ATTEMPTS = 6
LOOK_TIMEOUT_SECONDS = 5
"""How long the first look waits."""

_OPTUNA_TABLES = {
    "studies", "study_directions", "study_user_attributes", "study_system_attributes", "trials",
    "trial_user_attributes", "trial_system_attributes", "trial_params", "trial_values",
    "trial_intermediate_values", "trial_heartbeats", "version_info", "alembic_version",
}  # fmt: skip


def parse_storage(text: str) -> URL:
    """The database URL, with the driver that is used for it.

    Raises:
        StudyError: it is no URL of a SQLite or PostgreSQL database.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise StudyError(
            f"'{without_password(text)}' is not a database URL; write sqlite:///FILE.db or postgresql://USER@HOST/NAME."
        ) from error
    kind = url.get_backend_name()
    if kind == "sqlite":
        if url.query or url.host or url.drivername not in ("sqlite", "sqlite+pysqlite"):
            raise StudyError(f"'{text}' says more than a file's name; write sqlite:///FILE.db.")
        if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
            raise StudyError(f"'{text}' names no file, so nothing would be kept; write sqlite:///FILE.db.")
        return url
    if kind != "postgresql":
        raise StudyError(
            f"A study cannot be kept in {kind}; use sqlite:///FILE.db or postgresql://USER@HOST/NAME."
        )
    if importlib.util.find_spec("psycopg") is None:
        raise StudyError(
            "PostgreSQL needs one more package; install it with: pip install 'autotune[postgres]'."
        )
    return url.set(drivername="postgresql+psycopg")


def open_storage(text: str, *, read_only: bool = False) -> RDBStorage:
    """The Optuna storage at a URL; a SQLite file is created where there is none, unless `read_only`.

    Raises:
        StudyError: it cannot be used, or belongs to something else.
    """
    url = parse_storage(text)
    shown = url.render_as_string(hide_password=True)
    with database_errors(shown):
        if url.get_backend_name() == "sqlite":
            path = Path(url.database or "")
            _look_at_file(path, read_only=read_only)
            return _open_sqlite(path, read_only=read_only)
        return _open_postgresql(url)


def is_database(path: Path) -> bool:
    """Whether a SQLite database lies there."""
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE)) == SQLITE
    except OSError:
        return False


def check_storage(text: str) -> None:
    """Find out whether a study can be kept at this URL, without creating anything.

    Raises:
        StudyError: it cannot.
    """
    url = parse_storage(text)
    with database_errors(url.render_as_string(hide_password=True)):
        if url.get_backend_name() == "sqlite":
            _look_at_file(Path(url.database or ""), read_only=False)
        else:
            _look_at_server(url)


def _open_sqlite(path: Path, *, read_only: bool) -> RDBStorage:
    url = URL.create("sqlite", database=str(path))
    if read_only:
        name, _, value = _read_only_mode(path).partition("=")
        address = f"file:{quote(path.absolute().as_posix())}"
        url = URL.create("sqlite", database=address, query={name: value, "uri": "true"})
    storage = _quietly(url, {"connect_args": {"timeout": LOCK_TIMEOUT_SECONDS}})
    if not read_only:
        sqlalchemy.event.listen(storage.engine, "connect", _write_ahead)
        storage.engine.dispose()
        atexit.register(_close, storage)
    return storage


def _close(storage: RDBStorage) -> None:
    """The last connection that closes puts the write-ahead log into the database, and removes it."""
    with contextlib.suppress(Exception):  # at exit, nobody can do anything about it
        storage.remove_session()
        storage.engine.dispose()


def _write_ahead(connection: Any, _record: Any) -> None:
    """Readers (optuna-dashboard) and the one writer do not block each other in this mode."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


def _open_postgresql(url: URL) -> RDBStorage:
    _look_at_server(url)
    return _quietly(url, {"pool_size": 1, "max_overflow": 2, "pool_pre_ping": True})


def _look_at_server(url: URL) -> None:
    engine = sqlalchemy.create_engine(url, connect_args={"connect_timeout": 10})
    try:
        _require_optuna(set(sqlalchemy.inspect(engine).get_table_names()), "The database", shared=True)
    finally:
        engine.dispose()


def _quietly(url: URL, engine_kwargs: dict[str, Any]) -> RDBStorage:
    # Optuna takes the URL for a template, so braces are doubled.
    text = url.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        attempt = 1
        while True:
            try:
                return RDBStorage(text, engine_kwargs=engine_kwargs)
            except (SQLAlchemyError, StorageInternalError) as error:
                # Another run makes the tables at this moment (optuna#4621).
                making = any(sign in str(error) for sign in ("already exists", "alembic_version"))
                if not making or attempt == CREATION_ATTEMPTS:
                    raise
                time.sleep(0.3 * attempt)
                attempt += 1


def _look_at_file(path: Path, *, read_only: bool) -> None:
    """Refuse what is no database of Optuna's; change nothing."""
    if path.is_dir():
        raise StudyError(f"{path} is a folder; name a file in it, such as sqlite:///{path}/autotune.db.")
    if not path.exists():
        if read_only:
            raise StudyError(
                f"There is no database {path} yet; `autotune run` makes one, --storage names another."
            )
        if not path.parent.is_dir():
            raise StudyError(
                f"There is no folder {path.parent} for the database {path.name}; create it first."
            )
        return
    if not path.is_file():
        raise StudyError(f"{path} is not a file; name another database with --storage.")
    with path.open("rb") as file:
        header = file.read(16)
    if header and header != SQLITE:
        raise StudyError(f"{path} is not a SQLite database; name another file with --storage.")
    mode = _read_only_mode(path) if read_only else "mode=rw"
    address = f"file:{quote(path.absolute().as_posix())}?{mode}"
    with contextlib.closing(sqlite3.connect(address, uri=True, timeout=LOOK_TIMEOUT_SECONDS)) as connection:
        query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
        names = {row[0] for row in connection.execute(query)}
        _require_optuna(names - {"sqlite_sequence"}, str(path), shared=False)
        if not read_only:
            # Writes and takes it back: a read-only, locked or full place is found out now.
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("CREATE TABLE autotune_may_write (x)")
            connection.execute("ROLLBACK")


def _read_only_mode(path: Path) -> str:
    """`immutable` where the folder is read-only: else SQLite cannot open a write-ahead database there."""
    log = path.with_name(path.name + "-wal")
    try:
        address = f"file:{quote(path.absolute().as_posix())}?mode=ro"
        with contextlib.closing(
            sqlite3.connect(address, uri=True, timeout=LOOK_TIMEOUT_SECONDS)
        ) as connection:
            connection.execute("SELECT name FROM sqlite_master LIMIT 1").fetchall()
    except sqlite3.OperationalError as error:
        if "unable to open" in str(error) and not log.exists():
            return "immutable=1"
    return "mode=ro"


def _require_optuna(tables: set[str], what: str, *, shared: bool) -> None:
    """Pass a database that is empty, Optuna's, or Optuna's and not finished yet.

    `alembic_version` is the one table that MLflow and others have under the same name; Optuna makes it last.
    """
    ours = tables <= _OPTUNA_TABLES or tables >= {"studies", "trials", "version_info"}
    clash = "alembic_version" in tables and "studies" not in tables
    if clash or (not ours and not shared):
        found = ", ".join(sorted(tables - {"alembic_version"})[:3]) or "alembic_version"
        raise StudyError(
            f"{what} belongs to another program (it holds {found}); give autotune a database of its own."
        )


_UNREADABLE = (
    sqlite3.Error,
    SQLAlchemyError,
    StorageInternalError,
    RuntimeError,
    OSError,
    ValueError,  # what should be JSON or text is not
    LookupError,  # a word that Optuna does not know
)


@contextlib.contextmanager
def database_errors(shown: str) -> Iterator[None]:
    """Turn what a database can say into one sentence for the user."""
    try:
        yield
    except _UNREADABLE as error:
        sentence = explain(error, shown)
        # A place that fills up while work is done is no mistake in what was asked for.
        kind = WorkFailedError if any(clue in sentence for clue in _FULL) else StudyError
        raise kind(sentence) from error


@contextlib.contextmanager
def reading_errors(shown: str) -> Iterator[None]:
    """The same for a database that is only read, and may come from a stranger: Optuna trusts its cells."""
    try:
        with database_errors(shown):
            yield
    except (TypeError, AttributeError, AssertionError) as error:
        raise StudyError(
            f"{shown}: the database holds what Optuna does not write ({_innermost(error)}); "
            "name another with --storage."
        ) from error


def explain(error: BaseException, shown: str) -> str:
    """What happened to the database, and what to do about it."""
    text = _innermost(error)
    for clue, sentence in _CLUES.items():
        if clue in text.lower():
            return f"{shown}: {sentence}"
    return f"{shown}: the database could not be used ({text}); check it, or name another with --storage."


_FULL = ("the disk is full", "the disk could not be written")
_CLUES = {
    "locked": "the database is locked by another program; wait until that has ended, or close it.",
    "readonly": "the database is read-only; make it writable, or name another with --storage.",
    "read-only": "the database is read-only; make it writable, or name another with --storage.",
    "disk is full": "the disk is full; make room and run the same command again, finished trials are kept.",
    "disk i/o error": "the disk could not be written (full?); make room and run the same command again.",
    "unable to open": "the database could not be opened or created; check the folder's permissions.",
    "malformed": "the database is damaged; name another with --storage.",
    "not a database": "this is not a SQLite database; name another file with --storage.",
    "no longer compatible": "another version of Optuna made it; run `optuna storage upgrade` on it.",
    "authentication failed": "the database refused user or password; check both.",
    "password": "the database refused user or password; check both.",
    "does not exist": "there is no such database or user on that server; create it first.",
    "refused": "nothing answers at that address; check host and port, and that the server runs.",
    "could not translate host": "there is no host of that name.",
    "name or service not known": "there is no host of that name.",
    "failed to resolve host": "there is no host of that name.",
    "closed the connection": "the server has gone; run the same command again when it is back.",
    "terminating connection": "the server has gone; run the same command again when it is back.",
    "timeout": "the server did not answer in time; check host and port.",
}


def _innermost(error: BaseException) -> str:
    """The database driver's own words, on one line, without SQL and parameters."""
    while True:
        inner = getattr(error, "orig", None) or error.__cause__
        if inner is None or inner is error:
            return " ".join(str(error).split())[:200]
        error = inner


def without_password(text: str) -> str:
    """The URL for people; where it is malformed, everything before `@` is hidden."""
    with contextlib.suppress(ArgumentError, ValueError):
        return make_url(text).render_as_string(hide_password=True)
    return f"***@{text.rpartition('@')[2]}" if "@" in text else text
