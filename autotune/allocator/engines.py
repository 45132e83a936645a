"""The engines by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from autotune.allocator.result import Engine
from autotune.errors import UsageError

ENGINE_NAMES = ("model", "native")


@contextmanager
def open_engine(name: str) -> Iterator[Engine]:
    """An engine for as long as the `with` block lasts. Imports it only now: each needs a second to start.

    Raises:
        UsageError: there is no such engine, or it cannot run here.
    """
    if name == "model":
        from autotune.allocator.model import Model

        yield Model()
    elif name == "native":
        from autotune.allocator.native import Native

        with Native() as native:
            yield native
    else:
        raise UsageError(f"'{name}' is no engine; choose {' or '.join(ENGINE_NAMES)}.")
