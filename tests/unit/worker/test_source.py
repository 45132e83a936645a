"""The worker runs in other people's interpreters, so its source is held to more than ours."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

WORKER = Path(__file__).parents[3] / "autotune" / "worker"
FILES = sorted(WORKER.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_parses_as_python_3_9(file: Path) -> None:
    ast.parse(file.read_text(), feature_version=(3, 9))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_imports_only_itself_torch_and_the_standard_library(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        for name in names:
            top = name.partition(".")[0]
            assert top == "torch" or top in sys.stdlib_module_names, f"{file.name} imports {name}"
