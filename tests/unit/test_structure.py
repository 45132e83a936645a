"""The house of the design: rooms, and arrows that point down only."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "autotune"
ROOMS = ("cli", "study", "report", "trial", "worker", "allocator", "trace")
VOCABULARY = ("documents", "errors", "units", "settings", "measurement", "metrics")
FILES = sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_modules(path: Path, *, at_import_time: bool = False) -> set[str]:
    tree = ast.parse(path.read_text())
    nodes = tree.body if at_import_time else ast.walk(tree)
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            # The worker is loaded under a private name in the user's interpreter, so it names only itself.
            if room(path) == "worker" and node.level == 1:
                continue
            assert node.level == 0, f"{path}: imports inside autotune are absolute"
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def allowed_rooms(own: str) -> set[str]:
    if own in ("__init__", "__main__"):
        return {"cli"}
    if own == "worker":
        return {"worker"}
    if own in VOCABULARY:
        return set(VOCABULARY)
    return {*ROOMS[ROOMS.index(own) :], *VOCABULARY} - {"worker"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_from_rooms_below_it(path: Path) -> None:
    ours = {name.split(".")[1] for name in imported_modules(path) if name.startswith("autotune.")}
    ours -= {"__version__", "step"}
    assert ours <= allowed_rooms(room(path)), f"{path} looks up the house"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_heavy_libraries_stay_in_their_rooms(path: Path) -> None:
    top = {name.split(".")[0] for name in imported_modules(path)}
    if "optuna" in top:
        assert room(path) in ("study", "report", "cli")
    if "torch" in top:
        assert room(path) in ("worker", "allocator")


def test_the_package_holds_the_designed_rooms_and_no_others() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert rooms == set(ROOMS)
    assert modules == set(VOCABULARY)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_file_says_what_it_is_for_and_stays_under_400_lines(path: Path) -> None:
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text)) or not text.strip()
    assert len(text.splitlines()) <= 400
