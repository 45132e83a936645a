"""Figures as PNG, by the extra `image`: looked for before any work, drawn at its end."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from autotune.errors import UsageError, WorkFailedError


def check_picture(path: Path | None) -> None:
    """Find out whether a picture can be made at all.

    Raises:
        UsageError: the package that draws it is missing.
    """
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
        figure.write_image(path, width=900, height=480, scale=2)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}.") from error
    except (RuntimeError, ValueError) as error:
        raise WorkFailedError(f"The picture cannot be drawn ({error}); use --html.") from error
