"""Opening databases: ours, new, and those that belong to somebody else or cannot be used."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import optuna
import pytest

from autotune.errors import StudyError
from autotune.measurement import Obtained
from autotune.report.stored import Conditions, Role
from autotune.report.summary import summarise
from autotune.settings import AllocatorSettings
from autotune.study import storage as storage_module
from autotune.study.book import check_conditions, enter, load_study, open_study, study_names
from autotune.study.candidates import candidate
from autotune.study.lock import hold_study
from autotune.study.space import SearchSpace
from autotune.study.storage import check_storage, database_errors, open_storage, parse_storage
from tests.fakes import H200, measurement

CONDITIONS = Conditions(obtained=Obtained.REPLAYED)


def url(path: Path) -> str:
    return f"sqlite:///{path}"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextmanager
def untouched(path: Path) -> Iterator[None]:
    before, beside = digest(path), sorted(path.parent.iterdir())
    yield
    assert digest(path) == before
    assert sorted(path.parent.iterdir()) == beside


def make_table(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def test_a_new_database_is_made_in_an_existing_folder(tmp_path: Path) -> None:
    open_study(open_storage(url(tmp_path / "new.db")), "train", CONDITIONS)
    assert study_names(open_storage(url(tmp_path / "new.db"))) == ["train"]


def test_checking_a_storage_creates_nothing(tmp_path: Path) -> None:
    check_storage(url(tmp_path / "new.db"))
    assert list(tmp_path.iterdir()) == []


def test_reading_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"no database .* yet"):
        open_storage(url(tmp_path / "new.db"), read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_a_database_of_another_program_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    make_table(path, "CREATE TABLE customers (id INTEGER)")
    with untouched(path), pytest.raises(StudyError, match=r"belongs to another program .*customers"):
        open_storage(url(path))


def test_a_database_of_mlflow_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    make_table(
        path, "CREATE TABLE experiments (id INTEGER)", "CREATE TABLE alembic_version (version_num TEXT)"
    )
    with untouched(path), pytest.raises(StudyError, match="belongs to another program"):
        open_storage(url(path))


def test_a_lone_alembic_version_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    make_table(path, "CREATE TABLE alembic_version (version_num TEXT)")
    with untouched(path), pytest.raises(StudyError, match="belongs to another program"):
        open_storage(url(path))


def test_a_file_that_is_no_database_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("buy milk, and a great many other things")
    with untouched(path), pytest.raises(StudyError, match="not a SQLite database"):
        open_storage(url(path))


def test_a_damaged_database_is_refused_with_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "autotune.db"
    path.write_bytes(b"SQLite format 3\0" + os.urandom(5000))
    with pytest.raises(StudyError, match=r"damaged|not a SQLite database"):
        open_storage(url(path))


def test_an_empty_file_becomes_a_database(tmp_path: Path) -> None:
    (tmp_path / "autotune.db").touch()
    open_study(open_storage(url(tmp_path / "autotune.db")), "train", CONDITIONS)


def test_a_database_that_optuna_had_not_finished_making_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "autotune.db"
    open_storage(url(path))
    make_table(path, "DROP TABLE trial_heartbeats", "DROP TABLE version_info", "DROP TABLE alembic_version")
    open_study(open_storage(url(path)), "train", CONDITIONS)


def test_studies_of_others_in_an_optuna_database_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "optuna.db"
    optuna.create_study(study_name="theirs", storage=url(path)).optimize(lambda trial: 1.0, n_trials=1)
    ours = open_storage(url(path))
    open_study(ours, "ours", CONDITIONS)
    assert load_study(ours, None).study_name == "ours"
    with pytest.raises(StudyError, match=r"'theirs' .* was not made by autotune; .* --study theirs-2"):
        open_study(ours, "theirs", CONDITIONS)
    assert len(optuna.load_study(study_name="theirs", storage=url(path)).trials) == 1


@pytest.mark.parametrize("place", ["missing/autotune.db", "file/autotune.db"])
def test_a_folder_that_is_none_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StudyError, match="There is no folder"):
        open_storage(url(tmp_path / place))


def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="is a folder"):
        open_storage(url(tmp_path))


@pytest.mark.parametrize(
    "text",
    [
        "autotune.db",
        "",
        "sqlite://",
        "sqlite:///:memory:",
        "mysql://me@host/db",
        "http://x/y",
        "journal.log",
        "://",
        "sqlite:///a.db?mode=ro",
        "sqlite://host/a.db",
        "sqlite+nope:///a.db",
    ],
)
def test_a_url_that_names_no_usable_database_says_what_to_write(text: str) -> None:
    with pytest.raises(StudyError, match=r"sqlite:///FILE\.db"):
        parse_storage(text)


@pytest.mark.parametrize(
    "text", ["postgresql://me:s3cret@127.0.0.1:1/db", "mysql://me:s3cret@h/db", "postgres//me:s3cret@h:x/db"]
)
def test_no_message_shows_a_password(text: str) -> None:
    with pytest.raises(StudyError) as caught:
        open_storage(text)
    assert "s3cret" not in str(caught.value)


def test_a_locked_database_is_said_to_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_module, "LOOK_TIMEOUT_SECONDS", 0.05)
    path = tmp_path / "autotune.db"
    open_storage(url(path))
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StudyError, match="locked by another program"):
            open_storage(url(path))


def test_a_read_only_database_is_said_to_be_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "autotune.db"
    open_study(open_storage(url(path)), "train", CONDITIONS)
    connect = sqlite3.connect

    def read_only(address: str, **more: object) -> sqlite3.Connection:
        # File permissions do not stop root, who runs tests in containers.
        return connect(address.replace("mode=rw", "mode=ro"), **more)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(sqlite3, "connect", read_only)
    with pytest.raises(StudyError, match="read-only"):
        open_storage(url(path))
    assert load_study(open_storage(url(path), read_only=True), "train").study_name == "train"


def test_reading_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "autotune.db"
    writer = open_storage(url(path))
    open_study(writer, "train", CONDITIONS)
    writer.remove_session()
    writer.engine.dispose()
    before = digest(path)
    load_study(open_storage(url(path), read_only=True), None)
    assert digest(path) == before


@pytest.mark.parametrize(
    "name", ["a b", "it's; DROP TABLE studies; --", "<b>x</b>", "../../etc/passwd", "日本", "{0}"]
)
def test_odd_names_are_only_names(tmp_path: Path, name: str) -> None:
    storage = open_storage(url(tmp_path / "autotune.db"))
    with hold_study(storage, name):
        open_study(storage, name, CONDITIONS)
    assert load_study(storage, name).study_name == name
    assert all(entry.name.startswith("autotune.db") for entry in tmp_path.iterdir())


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a\0b", "\x1b[31mred", "\udcff", "x" * 201])
def test_names_that_would_do_harm_are_refused(tmp_path: Path, name: str) -> None:
    storage = open_storage(url(tmp_path / "autotune.db"))
    with pytest.raises(StudyError, match="name"):
        open_study(storage, name, CONDITIONS)


def test_braces_and_blanks_in_the_path_are_only_letters(tmp_path: Path) -> None:
    folder = tmp_path / "a {b} %20?c"
    folder.mkdir()
    storage = open_storage(f"sqlite:///{quote(str(folder))}/x.db")
    open_study(storage, "train", CONDITIONS)
    assert (folder / "x.db").is_file()
    assert load_study(open_storage(f"sqlite:///{quote(str(folder))}/x.db", read_only=True), None)


def test_a_study_that_is_held_cannot_be_held_again(tmp_path: Path) -> None:
    storage = open_storage(url(tmp_path / "autotune.db"))
    refused: list[str] = []

    def other() -> None:
        try:
            with hold_study(open_storage(url(tmp_path / "autotune.db")), "train"):
                pass
        except StudyError as error:
            refused.append(str(error))

    with hold_study(storage, "train"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        with hold_study(storage, "another study"):
            pass
    assert refused == [
        f"Study 'train' is being run by process {os.getpid()}; wait until it ends, or use --study NEWNAME."
    ]
    with hold_study(storage, "train"):
        pass


@pytest.mark.parametrize(
    "damage",
    [
        "update trial_user_attributes set value_json = '{'",
        "update trials set state = 'NONSENSE'",
    ],
)
def test_damage_inside_a_database_is_one_sentence(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a.db"
    conditions = Conditions(obtained=Obtained.REPLAYED, environment=H200)
    study = open_study(open_storage(url(path)), "train", conditions)
    space = SearchSpace(torch_version=(2, 14), limited=False)
    first = candidate(space, Role.DEFAULT, AllocatorSettings())
    enter(study, space, first, measurement(), datetime(2026, 1, 1))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(damage)
        connection.commit()
    with pytest.raises(StudyError) as error, database_errors("a.db"):
        storage = open_storage(url(path))
        check_conditions(storage, "train", conditions)
        summarise(load_study(storage, "train"))
    assert "\n" not in str(error.value)
