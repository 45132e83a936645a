"""The README is true: its sessions repeat to the letter, its commands exist, its tree is the real one."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from autotune.cli import COMMANDS, main

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text()
SESSIONS = re.findall(r"<!-- tested -->\n```console\n(.*?)```", TEXT, re.DOTALL)
TYPED = re.findall(r"^(?:\$ )?python -m autotune ([^#\n]+)", TEXT, re.MULTILINE)
TREE = re.findall(r"## What is where\n\n```text\n(.*?)```", TEXT, re.DOTALL)[0]


def parts(session: str) -> list[tuple[str, str]]:
    """Commands and what they print, for each `$ ` of a session."""
    found = re.split(r"^\$ (.*)\n", session, flags=re.MULTILINE)
    return list(zip(found[1::2], found[2::2], strict=True))


def as_pattern(expected: str) -> str:
    """Lines as they are; a line `...` stands for any lines."""
    lines = [r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\s*\n" for line in written(expected)]
    return "".join(lines)


def written(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("session", SESSIONS, ids=range(len(SESSIONS)))
def test_a_session_repeats_to_the_letter(session: str, tmp_path: Path) -> None:
    for name in ("tests", "objectives", "studies"):
        (tmp_path / name).symlink_to(ROOT / name)
    for command, expected in parts(session):
        words = [sys.executable if word == "python" else word for word in shlex.split(command)]
        done = subprocess.run(
            words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        said = "\n".join(written(done.stdout)) + "\n"
        said = re.sub(r"autotune: compiling the allocator model .*\n|^compiling .*\n", "", said)
        assert done.returncode == 0, said
        assert re.fullmatch(as_pattern(expected), said), f"{command} printed:\n{said}"


def test_there_are_sessions_and_commands_to_test() -> None:
    assert SESSIONS
    assert {command.split()[0] for command in TYPED} <= set(COMMANDS)


@pytest.mark.parametrize("typed", TYPED)
def test_every_option_in_the_readme_exists(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(typed)
    with pytest.raises(SystemExit):
        main([words[0], "--help"])
    known = set(re.findall(r"--?[a-z][a-z-]*", capsys.readouterr().out))
    own = words[: words.index("--")] if "--" in words else words
    assert {word for word in own[1:] if re.fullmatch(r"--?[a-z][a-z-]*", word)} <= known


def test_every_command_is_in_the_table() -> None:
    table = TEXT.partition("## Commands")[2].partition("\n## ")[0]
    assert {f"`{name}`" for name in COMMANDS} <= set(re.findall(r"^\| (`[a-z-]+`)", table, re.MULTILINE))


def test_the_tree_names_what_is_there() -> None:
    folder, named = "", set()
    for line in TREE.splitlines():
        name = line.split()[0]
        folder = "" if not line.startswith(" ") else folder
        path = folder + name
        named.add(path)
        assert (ROOT / path).exists(), f"{path} is in the README and not there"
        folder = name if not line.startswith(" ") and name.endswith("/") else folder
    package = {path.name + "/" * path.is_dir() for path in (ROOT / "autotune").iterdir()}
    expected = {f"autotune/{name}" for name in package if not name.startswith("_") and name != "py.typed"}
    tracked = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=False
    ).stdout.split()
    expected |= {f"{path.split('/')[0]}/" for path in tracked if "/" in path and not path.startswith(".")}
    assert expected <= named


def test_every_link_leads_to_a_file() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", TEXT)
    assert [link for link in links if not (ROOT / link).exists()] == []
