"""Studies written down: `studies/NAME.toml`. Choices only; the keys are those of `autotune run`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.errors import UsageError
from autotune.units import parse_size


@dataclass(frozen=True, kw_only=True)
class StudyFile:
    """What a file says; None where it leaves the choice to the command line or the default."""

    script: Path | None = None
    """Relative to the file's own folder."""
    trace: Path | None = None
    args: tuple[str, ...] | None = None
    study: str | None = None
    trials: int | None = None
    memory_limit: int | None = None
    without: tuple[str, ...] | None = None
    settings: tuple[str, ...] | None = None
    warmup: int | None = None
    steps: int | None = None
    timeout: float | None = None
    seed: int | None = None
    engine: str | None = None
    sampler: str | None = None
    confirm_rounds: int | None = None
    early_stop: bool | None = None


def load_study_file(path: Path) -> StudyFile:
    """Read a study file.

    Raises:
        UsageError: it cannot be read, is no TOML, or holds a key or a value that is not understood.
    """
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is no file; --config takes a study's TOML file.")
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read ({error.strerror}); --config takes a study's TOML file."
        ) from error
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, brackets as deep
        raise UsageError(f"{path} is not TOML: {error}.") from error
    values = {key: _checked(path, key, value) for key, value in document.items()}
    for key in ("script", "trace"):
        if key in values:
            values[key] = path.parent / values[key]
    if "script" in values and "trace" in values:
        raise UsageError(f"{path} names both a script and a trace; keep one.")
    return StudyFile(**values)


def _checked(path: Path, key: str, value: Any) -> Any:
    if key not in _KINDS:
        raise UsageError(f"{path}: '{key}' is no key of a study; the keys are {', '.join(_KINDS)}.")
    kind, words = _KINDS[key]
    listed = kind is tuple
    if listed and isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    if listed or not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise UsageError(f"{path}: {key} = {value!r} is not {words}.")
    if key == "memory_limit":
        return parse_size(value)
    return value


_KINDS: Mapping[str, tuple[Any, str]] = {
    "script": (str, "a path, as text"),
    "trace": (str, "a path, as text"),
    "args": (tuple, "a list of texts"),
    "study": (str, "a name, as text"),
    "trials": (int, "a whole number"),
    "memory_limit": (str, 'a size, such as "24GiB"'),
    "without": (tuple, "a list of options, as texts"),
    "settings": (tuple, "a list of settings, as texts"),
    "warmup": (int, "a whole number"),
    "steps": (int, "a whole number"),
    "timeout": ((int, float), "a number of seconds"),
    "seed": (int, "a whole number"),
    "engine": (str, "an engine or off, as text"),
    "sampler": (str, "the name of a sampler, as text"),
    "confirm_rounds": (int, "a whole number"),
    "early_stop": (bool, "true or false"),
}
"""Key → its type, and that type in words."""
