"""How the model's functions become machine code: numba, without the GIL, compiled once and kept on disk.

Only the entry point is kept on disk, with everything it calls inside. Numba compares no file but the entry
point's own, so it would go on using old code after an edit elsewhere in this folder. `SOURCE_DIGEST`, over
which the entry point closes and which is thereby part of numba's key, prevents that.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import event

Function = TypeVar("Function", bound=Callable[..., Any])

SOURCE_DIGEST = hashlib.sha256(
    b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
).hexdigest()

COMPILE_SECONDS = 10
"""About what the first-ever compilation takes on one core; told to the user, relied on by nothing."""


_compile: Any = partial(numba.njit, nogil=True, error_model="numpy")


def compiled(function: Function) -> Function:
    """The function as machine code, for other compiled functions to call.

    Python and C cannot call it: without the wrappers for them it compiles in two thirds of the time.
    """
    inner = _compile(no_cpython_wrapper=True, no_cfunc_wrapper=True, no_rewrites=True)
    return cast(Function, inner(function))


def entry_point(function: Function) -> Function:
    """The function as machine code for Python to call, kept on disk if any folder can be written."""
    try:
        return cast(Function, _compile(cache=True)(function))
    except RuntimeError:  # "no locator available": neither this folder nor the user's cache is writable
        return cast(Function, _compile()(function))


class _Announcement(event.Listener):
    """Tells the user, once, what they are waiting for. Numba sends no event when it reads its cache."""

    told = False

    def on_start(self, event: Any) -> None:
        if not _Announcement.told:
            _Announcement.told = True
            note = f"autotune: compiling the allocator model once (about {COMPILE_SECONDS} s)…"
            print(note, file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        pass


def compile_now(entry: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Load or compile an entry point for the types of `arguments`."""
    signature = tuple(numba.typeof(argument) for argument in arguments)  # type: ignore[no-untyped-call]
    # Numba adds the code to the function before it writes the file, so a full disk costs only the next start.
    with event.install_listener("numba:compile", _Announcement()), contextlib.suppress(OSError):
        entry.compile(signature)  # type: ignore[attr-defined]
