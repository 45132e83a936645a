"""Figures as PNG, by the extra `image`: looked for before any work, drawn at its end."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from autotune.cli.output import PNG, cannot_write, may_write, write_whole
from autotune.errors import UsageError, WorkFailedError


def check_picture(path: Path | None) -> None:
    """Find out whether a picture can be made at all.

    Raises:
        UsageError: the package that draws it is missing, or something else is at its place.
    """
    if path is not None:
        may_write(path, PNG)
    if path is not None and importlib.util.find_spec("kaleido") is None:
        raise UsageError(
            "--png needs one more package; install it with: pip install 'autotune[image]', or use --html."
        )


def write_picture(figure: Any, path: Path) -> None:
    """Draw a plotly figure.

    Raises:
        UsageError: the file cannot be written.
        WorkFailedError: the browser that draws it is missing or fails.
    """
    try:
        may_write(path, PNG)
        write_whole(path, figure.to_image(format="png", width=900, height=480, scale=2), replace=True)
    except OSError as error:
        raise cannot_write(path, error) from error
    except (RuntimeError, ValueError) as error:
        raise WorkFailedError(f"The picture cannot be drawn ({error}); use --html.") from error
