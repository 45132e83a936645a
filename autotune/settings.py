"""AllocatorSettings: one configuration of PyTorch's CUDA caching allocator.

Parses and prints the string that goes into `PYTORCH_CUDA_ALLOC_CONF`, and rejects, before anything is
launched, what PyTorch would refuse, abort on, or silently misread. Option names, types and limits were
read off torch 2.4 … 2.15 (c10/core/AllocatorConfig.h, c10/cuda/CUDAAllocatorConfig.cpp); PyTorch itself
accepts some nonsense (`max_split_size_mb:-1` wraps to a huge number), this module does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

from autotune.errors import SettingsError

TorchVersion = tuple[int, int]
"""Major and minor release, such as (2, 11)."""

NEWEST_KNOWN_TORCH: TorchVersion = (2, 15)
ENVIRONMENT_VARIABLE = "PYTORCH_CUDA_ALLOC_CONF"
"""Read by every torch; from 2.10 on it wins over PYTORCH_ALLOC_CONF when both are set."""

Roundup = int | tuple[tuple[int | None, int], ...]
"""Divisions of every power of two, or a list of (size in MB, divisions); the size None is `>`."""

ROUNDUP_INTERVALS = 16
MOST_MEGABYTES = 1 << 24
"""The largest size that an option takes, 16 TiB."""
DEFAULT_LARGE_SEGMENT_MB = 20


def parse_torch_version(text: str) -> TorchVersion:
    """`(2, 11)` from `2.11`, `2.11.0` or `2.11.0+cu130`.

    Raises:
        SettingsError: the text does not begin with `major.minor`, or the version is below 2.4.
    """
    match = re.match(r"([0-9]{1,2})\.([0-9]{1,3})(?![0-9])", text.strip())
    if match is None:
        raise SettingsError(f"'{text}' is not a torch version; write it as 2.11 or 2.11.0.")
    version = int(match.group(1)), int(match.group(2))
    if version < (2, 4):
        raise SettingsError(f"torch {text} is too old; autotune knows the allocator of torch 2.4 and newer.")
    if version >= (3, 0):
        newest = ".".join(map(str, NEWEST_KNOWN_TORCH))
        raise SettingsError(
            f"torch {text} is unknown; autotune knows the allocator of torch 2.4 to {newest}."
        )
    return version


@dataclass(frozen=True)
class Option:
    """One allocator option: what it takes, since when, and what it is for."""

    name: str
    since: TorchVersion
    legal: str
    """The legal values, for people."""
    help: str
    tunable: bool = False
    """True for the options the search space may propose."""


_BOOLEAN, _MEGABYTES, _POWER = "True or False", "a whole number of MB above 0", "a power of two up to 128"
_SPLIT_MEGABYTES = (
    "a whole number of MB, at least 20 (21 before torch 2.10) and at least large_segment_size_mb"
)

OPTIONS: Mapping[str, Option] = {
    option.name: option
    for option in (
        Option("max_split_size_mb", (2, 4), _SPLIT_MEGABYTES, "blocks this large are never split", True),
        Option("max_non_split_rounding_mb", (2, 6), _SPLIT_MEGABYTES,
               "how much larger than the request an unsplittable block may be and still be reused", True),
        Option("garbage_collection_threshold", (2, 4), "a number between 0 and 1, exclusive",
               "share of the memory limit above which old cached blocks are released; needs a limit", True),
        Option("roundup_power2_divisions", (2, 4), "a power of two (1 = off) or a list like [256:1,>:8]",
               "round requests up to this many steps between powers of two", True),
        Option("expandable_segments", (2, 4), _BOOLEAN,
               "grow one segment a stream page by page instead of allocating fixed segments", True),
        Option("large_segment_size_mb", (2, 11), "a whole number of MB above 10",
               "segment size for requests of 1 to 10 MiB, and page size of expandable segments", True),
        Option("per_process_memory_fraction", (2, 10), "a number from 0 to 1", "share of the GPU to reserve"),
        Option("throw_on_cudamalloc_oom", (2, 12), _BOOLEAN, "refuse above the fraction unasked"),
        Option("graph_capture_record_stream_reuse", (2, 9), _BOOLEAN, "reuse blocks across streams"),
        Option("release_lock_on_cudamalloc", (2, 4), _BOOLEAN, "other threads may allocate meanwhile"),
        Option("backend", (2, 4), "native", "which allocator; only the native one has these options"),
        Option("expandable_segments_reserve", (2, 15), "a fraction or a size such as 40G",
               "address space reserved for each expandable segment"),
        Option("pinned_use_cuda_host_register", (2, 4), _BOOLEAN, "host memory"),
        Option("pinned_num_register_threads", (2, 4), _POWER, "host memory"),
        Option("pinned_use_background_threads", (2, 6), _BOOLEAN, "host memory"),
        Option("pinned_reserve_segment_size_mb", (2, 10), _MEGABYTES, "host memory"),
        Option("pinned_free_catch_all", (2, 12), _BOOLEAN, "host memory"),
        Option("pinned_max_round_threshold_mb", (2, 13), _MEGABYTES, "host memory"),
        Option("pinned_max_cached_size_mb", (2, 13), _MEGABYTES, "host memory"),
    )
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class AllocatorSettings:
    """One configuration. None means the option is not mentioned, so PyTorch's default holds.

    Raises:
        SettingsError: from `parse` and `validate`, naming option, value and legal range.
    """

    expandable_segments: bool | None = None
    max_split_size_mb: int | None = None
    max_non_split_rounding_mb: int | None = None
    garbage_collection_threshold: float | None = None
    roundup_power2_divisions: Roundup | None = None
    large_segment_size_mb: int | None = None
    per_process_memory_fraction: float | None = None
    passthrough: tuple[tuple[str, str], ...] = field(default=())
    """Further options that PyTorch knows and that do not move a block; kept as written."""

    @classmethod
    def parse(cls, text: str) -> AllocatorSettings:
        """Settings from an environment string such as `max_split_size_mb:128,expandable_segments:False`."""
        values: dict[str, object] = {}
        passthrough: list[tuple[str, str]] = []
        for name, value in _split(text):
            if name not in OPTIONS:
                known = ", ".join(option.name for option in OPTIONS.values() if option.tunable)
                raise SettingsError(
                    f"'{name}' is no option of PyTorch's CUDA allocator; the ones to tune are {known}."
                )
            if name in values or name in dict(passthrough):
                raise SettingsError(f"'{name}' appears twice in '{text}'; keep one.")
            if name in _READERS:
                values[name] = _READERS[name](name, value)
            else:
                passthrough.append((name, _passthrough(name, value)))
        return cls(**values, passthrough=tuple(passthrough))  # type: ignore[arg-type]

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options that are mentioned, those passed through aside."""
        names = (item.name for item in fields(self) if item.name != "passthrough")
        return tuple(name for name in names if getattr(self, name) is not None)

    def __str__(self) -> str:
        """The environment string; empty for the defaults."""
        parts = [f"{name}:{_write(getattr(self, name))}" for name in self.options]
        parts += [f"{name}:{value}" for name, value in self.passthrough]
        return ",".join(parts)

    def validate(self, torch_version: TorchVersion) -> None:
        """Reject what this release of torch would refuse or misread."""
        for name in (*self.options, *(name for name, _ in self.passthrough)):
            since = OPTIONS[name].since
            if torch_version < since:
                raise SettingsError(
                    f"{name} exists from torch {since[0]}.{since[1]} on, and this is torch "
                    f"{torch_version[0]}.{torch_version[1]}; leave it out."
                )
        large = self.large_segment_size_mb
        _require(large is None or large > 10, "large_segment_size_mb", large)
        if self.expandable_segments and large is not None and large % 2:
            raise SettingsError(
                f"large_segment_size_mb:{large} cannot go with expandable segments, as the driver maps pages "
                f"in multiples of 2 MB; use {large + 1}."
            )
        lowest = max(20, large or 20) if torch_version >= (2, 10) else 21
        for name in ("max_split_size_mb", "max_non_split_rounding_mb"):
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise SettingsError(
                    f"{name}:{value} is too small; the smallest legal value here is {lowest}."
                )

    @cached_property
    def is_default(self) -> bool:
        """True when every option has PyTorch's default."""
        return str(self.canonical()) == ""

    def canonical(
        self, *, torch_version: TorchVersion = NEWEST_KNOWN_TORCH, limited: bool = True
    ) -> AllocatorSettings:
        """The shortest settings with the same behaviour by rule; equal behaviour by rule gives equal strings.

        Args:
            torch_version: whose rules hold.
            limited: whether the process has a memory limit; without one garbage collection never runs
                (PyTorch issue #106660).
        """
        expandable = bool(self.expandable_segments)
        large = None if self.large_segment_size_mb == DEFAULT_LARGE_SEGMENT_MB else self.large_segment_size_mb
        non_split = self.max_non_split_rounding_mb
        if self.max_split_size_mb is None or non_split == (large or DEFAULT_LARGE_SEGMENT_MB):
            non_split = None
        fraction = self.per_process_memory_fraction
        limited = limited or (fraction is not None and fraction < 1)
        return replace(
            self,
            expandable_segments=True if expandable else None,
            max_non_split_rounding_mb=non_split,
            # Garbage collection passes over expandable segments (PyTorch PR #134338).
            garbage_collection_threshold=self.garbage_collection_threshold
            if limited and not expandable
            else None,
            roundup_power2_divisions=_canonical_roundup(self.roundup_divisions(torch_version)),
            large_segment_size_mb=large,
            per_process_memory_fraction=None if fraction == 1 else fraction,
            passthrough=tuple(
                sorted(item for item in self.passthrough if item[1] != "False" and item[0] != "backend")
            ),
        )

    def roundup_divisions(self, torch_version: TorchVersion) -> tuple[int, ...]:
        """Divisions for each of the 16 intervals that begin at 1 MB, 2 MB … 32768 MB; 0 = no rounding.

        As `parseRoundUpPower2Divisions`: the first key also serves all smaller sizes, gaps stay 0, and `>`
        fills from the last key on (before torch 2.10 it overwrites that key's own value).
        """
        value = self.roundup_power2_divisions
        if value is None:
            return (0,) * ROUNDUP_INTERVALS
        if isinstance(value, int):
            return (0 if value == 1 else value,) * ROUNDUP_INTERVALS
        table, last, first = [0] * ROUNDUP_INTERVALS, 0, True
        for megabytes, divisions in value:
            if megabytes is None:
                start = last + 1 if torch_version >= (2, 10) else last
                table[start:] = [divisions] * (ROUNDUP_INTERVALS - start)
                break
            last = min(megabytes.bit_length() - 1, ROUNDUP_INTERVALS - 1)
            if first:
                table[:last] = [divisions] * last
            table[last], first = divisions, False
        return tuple(0 if divisions == 1 else divisions for divisions in table)


def simplicity(text: str) -> tuple[int, int, str]:
    """Orders environment strings: few things to say first, then the shorter one."""
    return text.count("_mb:") + text.count(",") + bool(text), len(text), text


def _split(text: str) -> list[tuple[str, str]]:
    """`name:value` pairs of an environment string; commas inside brackets belong to the value."""
    pairs = []
    stripped = re.sub(r"\s+", "", text)
    for item in re.split(r",(?![^\[]*\])", stripped.removesuffix(",")) if stripped else []:
        name, colon, value = item.partition(":")
        if not (name and colon and value):
            raise SettingsError(f"'{item}' in '{text}' is not name:value; PyTorch would abort on it.")
        pairs.append((name, value))
    return pairs


def _require(condition: bool, name: str, value: object) -> None:
    if not condition:
        raise SettingsError(f"{name}:{value} is not legal; it takes {OPTIONS[name].legal}.")


def _read_boolean(name: str, value: str) -> bool:
    _require(value in ("True", "False"), name, value)
    return value == "True"


def _read_megabytes(name: str, value: str) -> int:
    _require(
        value.isascii() and value.isdigit() and len(value) < 10 and 10 < int(value) <= MOST_MEGABYTES,
        name,
        value,
    )
    return int(value)


def _read_share(name: str, value: str) -> float:
    _require(re.fullmatch(r"\d*\.?\d+(e-?\d+)?", value) is not None, name, value)
    share = float(value)
    _require(0 < share < 1 or (name == "per_process_memory_fraction" and 0 <= share <= 1), name, value)
    return share


def _is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def _read_roundup(name: str, value: str) -> Roundup:
    if value.isascii() and value.isdigit():
        _require(_is_power_of_two(int(value)), name, value)
        return int(value)
    _require(value.startswith("[") and value.endswith("]"), name, value)
    pairs: list[tuple[int | None, int]] = []
    for item in value[1:-1].split(","):
        match = re.fullmatch(r"(>|[0-9]+):([0-9]+)", item)
        if match is None:
            raise SettingsError(f"{name}:{value} is not legal; it takes {OPTIONS[name].legal}.")
        key = None if match.group(1) == ">" else int(match.group(1))
        _require(not pairs or pairs[-1][0] is not None, name, value)  # '>' ends the list
        _require(key is None or _is_power_of_two(key), name, value)
        _require(int(match.group(2)) == 0 or _is_power_of_two(int(match.group(2))), name, value)
        pairs.append((key, int(match.group(2))))
    return tuple(pairs)


def _passthrough(name: str, value: str) -> str:
    legal = OPTIONS[name].legal
    _require(legal != _BOOLEAN or value in ("True", "False"), name, value)
    _require(legal != _MEGABYTES or (value.isdigit() and int(value) > 0), name, value)
    _require(
        legal != _POWER or (value.isdigit() and _is_power_of_two(int(value))),
        name,
        value,
    )
    _require(name != "backend" or value == "native", name, value)
    return value


def _canonical_roundup(table: tuple[int, ...]) -> Roundup | None:
    """The shortest value with this table; the last listed key equals `>`, so every release reads it alike."""
    if len(set(table)) == 1:
        return table[0] or None
    last = max(index for index in range(1, ROUNDUP_INTERVALS) if table[index] != table[index - 1])
    first = next(index for index in range(ROUNDUP_INTERVALS) if table[index] != table[0]) - 1
    listed: list[tuple[int | None, int]] = [
        (1 << index, table[index] or 1) for index in range(first, last + 1)
    ]
    return (*listed, (None, table[last] or 1)) if last < ROUNDUP_INTERVALS - 1 else tuple(listed)


def _write(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ",".join(f"{'>' if key is None else key}:{divisions}" for key, divisions in value) + "]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


_READERS: Mapping[str, Callable[[str, str], object]] = {
    "expandable_segments": _read_boolean,
    "max_split_size_mb": _read_megabytes,
    "max_non_split_rounding_mb": _read_megabytes,
    "garbage_collection_threshold": _read_share,
    "roundup_power2_divisions": _read_roundup,
    "large_segment_size_mb": _read_megabytes,
    "per_process_memory_fraction": _read_share,
}
