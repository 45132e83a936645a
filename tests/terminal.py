"""What something prints on a terminal of so many columns."""

from __future__ import annotations

import io
from collections.abc import Callable

from rich.console import Console


def printed(show: Callable[[Console], object], width: int = 80) -> str:
    """Everything that `show` prints on the console that it is given."""
    target = io.StringIO()
    show(Console(file=target, width=width))
    return target.getvalue()
