"""Files that commands write: never over something of the user's, and whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autotune.cli import main
from autotune.cli.output import HTML, may_write, write_page, write_whole
from autotune.errors import UsageError, WorkFailedError


def test_a_page_replaces_a_page_and_nothing_else(tmp_path: Path) -> None:
    page, database = tmp_path / "r.html", tmp_path / "autotune.db"
    write_page(page, "<html>1</html>")
    write_page(page, "<html>2</html>")
    assert page.read_text() == "<html>2</html>"
    database.write_bytes(b"SQLite format 3\0")
    with pytest.raises(UsageError, match="exists already and is something else"):
        write_page(database, "<html></html>")
    assert database.read_bytes() == b"SQLite format 3\0"
    may_write(tmp_path / "new.html", HTML)


def test_a_disk_that_is_full_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    page = tmp_path / "r.html"
    page.write_text("<html>old</html>")
    monkeypatch.setattr("autotune.cli.output.os.replace", full)
    with pytest.raises(WorkFailedError, match="No space left"):
        write_page(page, "<html>new</html>")
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "best.env", b"A=1", replace=False)
    assert [one.name for one in tmp_path.iterdir()] == ["r.html"]
    assert page.read_text() == "<html>old</html>"


@pytest.mark.parametrize("name", ["script.py", "notes.txt"])
def test_a_recording_replaces_no_file_that_is_no_trace(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script, target = tmp_path / "script.py", tmp_path / name
    script.write_text("import torch\n")
    target.write_text("import torch\n")
    assert main(["record", "--script", str(script), "-o", str(target), "--gpu", "2GiB"]) == 2
    assert "exists already and is no trace" in capsys.readouterr().err
    assert target.read_text() == "import torch\n"
