"""Where a line may break inside settings, so that half a value is never taken for a whole one.

`large_segment_size_mb:961` above a lone `8` is legal and wrong. So lines break after a comma, else after a
colon or an underscore, and never inside a number or a pair in brackets such as 16:4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.measure import Measurement

_OPTION = re.compile(r"(?:\[[^\]]*\]|[^,\[]|\[)+,?|,")
"""One option with its comma; the commas of a list in brackets belong to it."""
_BETTER = re.compile(r"(?<=,)")
_WORSE = re.compile(r"(?<=[:_ ])(?![^\[]*\])")
"""After a colon or an underscore outside brackets, or between words."""


def pieces(text: str) -> list[str]:
    """What must stay whole, in order; together they are the text."""
    return [one for part in _BETTER.split(text) for one in _WORSE.split(part) if one]


def lines(settings: str, width: int) -> list[str]:
    """One option a line; one that is longer than the width on several."""
    return [line for option in _OPTION.findall(settings) for line in _filled(option, width)]


def _filled(text: str, width: int) -> Iterator[str]:
    """Lines of at most this width, unless one piece alone is longer."""
    while len(text) > width:
        end = _break_before(text, width)
        if end == len(text):
            break
        yield text[:end].rstrip(" ")
        text = text[end:]
    yield text


def _break_before(text: str, width: int) -> int:
    """The last good place for a break within the width; beyond it if there is none."""
    for kind in (_BETTER, _WORSE):
        places = [found.start() for found in kind.finditer(text) if 0 < found.start() <= width]
        if places:
            return places[-1]
    return len(pieces(text)[0])


def breakable(text: str, width: int) -> str:
    """A sentence whose words longer than the width are broken where settings may be."""
    return re.sub(r"\S+", lambda word: "\n".join(_filled(word[0], width)), text)


class SettingsCell:
    """Settings in a table of rich, in as many lines as its column needs."""

    def __init__(self, settings: str, *, style: str = "") -> None:
        self._settings = settings
        self._style = style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        yield Text("\n".join(lines(self._settings, options.max_width)), style=self._style, overflow="fold")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        from rich.measure import Measurement

        least = max(map(len, pieces(self._settings)), default=0)
        most = max(map(len, _OPTION.findall(self._settings)), default=0)
        return Measurement(least, most).with_maximum(options.max_width)
