"""The engines by name."""

from __future__ import annotations

import os
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
        if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
            raise UsageError("NUMBA_DISABLE_JIT is set, and the model needs numba's compiler; unset it.")
        from autotune.allocator.model import Model

        yield Model()
    elif name == "native":
        from autotune.allocator.native import Native

        with Native() as native:
            yield native
    else:
        raise UsageError(f"'{name}' is no engine; choose {' or '.join(ENGINE_NAMES)}.")
