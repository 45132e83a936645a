"""Reading and writing quantities. Inside autotune everything is bytes and seconds; units appear only here."""

from __future__ import annotations

import re

from autotune.errors import UsageError

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

_FACTORS = {
    "": 1, "b": 1,
    "k": KIB, "kib": KIB, "kb": 1000,
    "m": MIB, "mib": MIB, "mb": 1000**2,
    "g": GIB, "gib": GIB, "gb": 1000**3,
    "t": 1 << 40, "tib": 1 << 40, "tb": 1000**4,
}  # fmt: skip
_SIZE = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([a-zA-Z]*)\s*")
LARGEST_SIZE = 1 << 50
"""1 PiB: more than any GPU has, and little enough to count with."""


def parse_size(text: str) -> int:
    """Bytes of a size such as `24GiB`, `24G`, `800MB` or `1073741824`.

    Binary (`GiB`, `G`) and decimal (`GB`) units are told apart.

    Raises:
        UsageError: the text is not a positive size.
    """
    match = _SIZE.fullmatch(text)
    factor = _FACTORS.get(match.group(2).lower()) if match else None
    if match is None or factor is None:
        raise UsageError(f"'{text}' is not a size; write it as 24GiB, 800MB or a number of bytes.")
    size = int(float(match.group(1)) * factor) if "." in match.group(1) else int(match.group(1)) * factor
    if not 0 < size <= LARGEST_SIZE:
        raise UsageError(f"'{text}' is not a size above zero and up to {format_bytes(LARGEST_SIZE)}.")
    return size


def format_bytes(size: float) -> str:
    """A size for people, in binary units: `512 B`, `1.5 MiB`, `16.0 GiB`."""
    magnitude = abs(size)
    for unit, factor in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if magnitude >= factor:
            digits = 2 if magnitude < 10 * factor else 1
            return f"{size / factor:,.{digits}f} {unit}"
    return f"{size:.0f} B"


def format_seconds(seconds: float) -> str:
    """A duration for people: `850 µs`, `12.3 ms`, `4.21 s`, `3 min 20 s`."""
    if seconds >= 120:
        return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"
    for unit, factor in (("s", 1.0), ("ms", 1e-3)):
        if abs(seconds) >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs" if seconds else "0 s"


def format_percent(share: float) -> str:
    """A share between 0 and 1 as a percentage: `12.5 %`."""
    return f"{share * 100:.1f} %"


def format_change(value: float, reference: float) -> str:
    """Relative change against a reference, signed: `−32.1 %`; an em dash where there is no reference."""
    if reference == 0:
        return "—" if value else "0.0 %"
    change = (value - reference) / reference * 100
    return f"{'+' if change > 0 else '−' if change < 0 else ''}{abs(change):.1f} %"


def printable(text: str) -> str:
    """The text on one line, with nothing in it that a terminal or a file would obey."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)
