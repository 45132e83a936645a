"""Dataclasses from JSON documents: every field of its declared type, or a ValueError that names it."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

LARGEST = 2**63
"""No count and no number of bytes reaches it."""

Kind = TypeVar("Kind")


def from_document(kind: type[Kind], document: object) -> Kind:
    """An instance of a dataclass; names that it does not know are passed over.

    Raises:
        ValueError: the document is no object, misses a field, or a field is of another type.
    """
    if not isinstance(document, Mapping):
        raise ValueError(f"{document!r:.60} is no object")
    hints = get_type_hints(kind)
    names = [item.name for item in fields(cast(Any, kind)) if item.name in document]
    values = {name: _read(hints[name], document[name], name) for name in names}
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(str(error)) from error


def _read(kind: Any, value: object, name: str) -> Any:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        chosen = [one for one in get_args(kind) if one is not type(None)]
        return None if value is None else _read(chosen[0], value, name)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_read(get_args(kind)[0], one, name) for one in value)
    if is_dataclass(kind):
        return from_document(cast(type, kind), value)
    if isinstance(kind, type) and issubclass(kind, Enum) and isinstance(value, str):
        return kind(value)
    if kind in (int, float) and _is_number(value, whole=kind is int):
        return value
    if kind in (str, bool) and isinstance(value, kind):
        return value
    raise ValueError(f"{name} {value!r:.60} is no {getattr(kind, '__name__', kind)}")


def _is_number(value: object, *, whole: bool) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    # A whole number may be too large to be asked whether it is finite.
    return abs(value) < LARGEST and math.isfinite(value) and (not whole or isinstance(value, int))
