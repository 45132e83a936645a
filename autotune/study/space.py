"""The search space: which settings may be proposed, for one release of torch, with or without a memory limit.

    expandable_segments  True  → roundup_power2_divisions, large_segment_size_mb
                         False → the same, and
                                 max_split_size_mb or none; with one max_non_split_rounding_mb
                                 garbage_collection_threshold or none, under a memory limit

Every Optuna parameter carries the name of the option that it sets and a value that the option takes, so that
optuna-dashboard reads like the environment string. Two flags of ours, `limit_split_size` and
`collect_garbage`, stand for "mention that option at all". Whole numbers are sampled on a log scale and then
moved to the nearest size of a list, because few sizes behave differently.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FixedTrial, Trial

from autotune.errors import SettingsError, UsageError
from autotune.settings import DEFAULT_LARGE_SEGMENT_MB, OPTIONS, AllocatorSettings, TorchVersion

Parameters = dict[str, Any]

ROUNDUP = "roundup_power2_divisions"
SPLIT_SIZES_MB = tuple(max(20, round(32 * 2 ** (step / 4))) for step in range(-3, 33))
"""20 MB … 8 GB, four sizes an octave, the powers of two among them."""
LARGEST_SPLIT_MB = SPLIT_SIZES_MB[-1]
LARGE_SEGMENT_SIZES_MB = (12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
NON_SPLIT_ROUNDINGS_MB = (20, 32, 64, 128, 256, 512, 1024, 2048)
"""The first stands for PyTorch's own default, which no string can say where the legal minimum is higher."""
THRESHOLDS = (0.2, 0.95, 0.05)
"""Lowest, highest and step of garbage_collection_threshold."""
OFF = "off"


def _roundup_choices() -> tuple[str, ...]:
    """Uniform divisions, divisions only from a size on, and divisions only below a size.

    A list's last key has the value of `>`, so every release of torch reads it alike.
    """
    choices = [OFF, "2", "4", "8", "16", "32"]
    for megabytes, divisions in itertools.product((2, 8, 32, 128, 512), (2, 4, 8)):
        choices.append(f"[{megabytes // 2}:1,{megabytes}:{divisions},>:{divisions}]")
    for megabytes, divisions in itertools.product((8, 32, 128), (2, 4, 8)):
        listed = [f"{size}:{divisions}" for size in _powers_below(megabytes)]
        choices.append(f"[{','.join(listed)},{megabytes}:1,>:1]")
    choices.append("[256:1,512:2,1024:4,2048:8,>:8]")
    return tuple(choices)


def _powers_below(megabytes: int) -> list[int]:
    return [1 << power for power in range(megabytes.bit_length() - 1)]


ROUNDUP_CHOICES = _roundup_choices()
"""A fixed list: Optuna does not let the choices of a parameter change within a study."""


@dataclass(frozen=True, kw_only=True)
class SearchSpace:
    """What may be proposed.

    Raises:
        UsageError: an option in `without` is not one that is ever proposed.
    """

    torch_version: TorchVersion
    limited: bool
    """Whether there is a memory limit; garbage collection does nothing without one."""
    without: frozenset[str] = field(default=frozenset())
    """Options that must not be used."""
    split_sizes_mb: tuple[int, ...] = SPLIT_SIZES_MB
    """Values of max_split_size_mb to consider, ascending; "unlimited" always is one more. May be empty."""

    def __post_init__(self) -> None:
        legal = [option.name for option in OPTIONS.values() if option.tunable]
        for name in sorted(self.without):
            if name not in legal:
                raise UsageError(
                    f"--without {name}: there is no such option to leave out; it takes {', '.join(legal)}."
                )

    def offers(self, option: str) -> bool:
        """True when this option may be proposed."""
        if option in self.without or self.torch_version < OPTIONS[option].since:
            return False
        if option == "garbage_collection_threshold":
            return self.limited
        if option == "max_split_size_mb":
            return bool(self.split_sizes_mb)
        return option != "max_non_split_rounding_mb" or self.offers("max_split_size_mb")

    def admits(self, settings: AllocatorSettings) -> bool:
        """True when these settings are legal here and use none of the options to be left out."""
        try:
            settings.validate(self.torch_version)
        except SettingsError:
            return False
        return not any(getattr(settings, name) is not None for name in self.without)

    def canonical(self, settings: AllocatorSettings) -> AllocatorSettings:
        """The shortest settings that behave the same by rule, here."""
        return settings.canonical(torch_version=self.torch_version, limited=self.limited)

    def suggest(self, trial: Trial | FixedTrial) -> AllocatorSettings:
        """Ask a trial for each parameter that applies, and build the settings."""
        chosen: Parameters = {}
        while (name := self._next(chosen)) is not None:
            chosen[name] = _suggest(trial, name, self.distribution(name))
        return self.settings(chosen)

    def draw(self, choose: Callable[[Sequence[Any]], Any]) -> AllocatorSettings:
        """Settings of which `choose` picked the value of each parameter that applies."""
        chosen: Parameters = {}
        while (name := self._next(chosen)) is not None:
            chosen[name] = choose(self.values(name))
        return self.settings(chosen)

    def distribution(self, parameter: str) -> BaseDistribution:
        """The Optuna distribution of one parameter; the same for every trial of a study."""
        if parameter in ("expandable_segments", "limit_split_size", "collect_garbage"):
            return CategoricalDistribution((False, True))
        if parameter == ROUNDUP:
            return CategoricalDistribution(ROUNDUP_CHOICES)
        if parameter == "garbage_collection_threshold":
            low, high, step = THRESHOLDS
            return FloatDistribution(low, high, step=step)
        if parameter == "max_split_size_mb":
            # The same whichever of the sizes are considered: a study's trials must not differ in it.
            return IntDistribution(self.lowest_split_mb, LARGEST_SPLIT_MB, log=True)
        sizes = self._sizes(parameter)
        return IntDistribution(sizes[0], sizes[-1], log=True)

    def distributions(self, parameters: Iterable[str]) -> dict[str, BaseDistribution]:
        """The distribution of each of these parameters, as Optuna wants it with a trial."""
        return {name: self.distribution(name) for name in parameters}

    def settings(self, parameters: Mapping[str, Any]) -> AllocatorSettings:
        """Canonical settings from parameters; sizes move to the nearest legal size of their list."""
        roundup = parameters.get(ROUNDUP, OFF)
        threshold = parameters.get("garbage_collection_threshold")
        large = self._nearest("large_segment_size_mb", parameters)
        rounding = self._nearest("max_non_split_rounding_mb", parameters, at_least=large)
        plain = self._nearest("max_non_split_rounding_mb", parameters) == NON_SPLIT_ROUNDINGS_MB[0]
        built = AllocatorSettings(
            expandable_segments=parameters.get("expandable_segments"),
            max_split_size_mb=self._nearest("max_split_size_mb", parameters, at_least=large),
            max_non_split_rounding_mb=None if plain else rounding,
            garbage_collection_threshold=None if threshold is None else round(threshold, 2),
            large_segment_size_mb=large,
        )
        if roundup != OFF:
            listed = AllocatorSettings.parse(f"{ROUNDUP}:{roundup}").roundup_power2_divisions
            built = replace(built, roundup_power2_divisions=listed)
        return self.canonical(built)

    def parameters(self, settings: AllocatorSettings) -> Parameters | None:
        """The parameters of these settings; None when the space does not contain exactly them."""
        wanted = self.canonical(settings)
        chosen: Parameters = {}
        while (name := self._next(chosen)) is not None:
            value = self._parameter(name, wanted)
            if not self._contains(name, value):
                return None
            chosen[name] = value
        return chosen if self._with_split_size(wanted.max_split_size_mb).settings(chosen) == wanted else None

    def _contains(self, parameter: str, value: Any) -> bool:
        """Whether the parameter's distribution has this value; Optuna stores no trial with another."""
        distribution = self.distribution(parameter)
        if isinstance(distribution, IntDistribution):
            return value is not None and distribution.low <= value <= distribution.high
        return value in self.values(parameter)

    def _with_split_size(self, size: int | None) -> SearchSpace:
        """The same space; a legal split size is a place in it even where it is not worth proposing."""
        if size is None or not self.lowest_split_mb <= size <= LARGEST_SPLIT_MB:
            return self
        return replace(self, split_sizes_mb=(*self.split_sizes_mb, size))

    def grid(self) -> Iterator[AllocatorSettings]:
        """Everything that the space contains, each behaviour by rule once."""
        seen: set[str] = set()
        for chosen in self._walk({}):
            settings = self.settings(chosen)
            if str(settings) not in seen:
                seen.add(str(settings))
                yield settings

    def _walk(self, chosen: Parameters) -> Iterator[Parameters]:
        name = self._next(chosen)
        if name is None:
            yield chosen
            return
        for value in self.values(name):
            yield from self._walk({**chosen, name: value})

    def _next(self, chosen: Mapping[str, Any]) -> str | None:
        """The first parameter that applies to what is chosen so far and is not chosen yet."""
        return next(
            (name for name, applies in _ORDER.items() if name not in chosen and applies(self, chosen)), None
        )

    def values(self, parameter: str) -> tuple[Any, ...]:
        """Everything that one parameter can be, in order."""
        distribution = self.distribution(parameter)
        if isinstance(distribution, CategoricalDistribution):
            return tuple(distribution.choices)
        if isinstance(distribution, FloatDistribution):
            low, high, step = THRESHOLDS
            return tuple(round(low + step * index, 2) for index in range(round((high - low) / step) + 1))
        return self._sizes(parameter)

    def _sizes(self, parameter: str) -> tuple[int, ...]:
        if parameter == "large_segment_size_mb":
            return LARGE_SEGMENT_SIZES_MB
        if parameter == "max_non_split_rounding_mb":
            return NON_SPLIT_ROUNDINGS_MB
        return tuple(sorted({max(size, self.lowest_split_mb) for size in self.split_sizes_mb}))

    @property
    def lowest_split_mb(self) -> int:
        """Before torch 2.10 the size must be above 20 MB."""
        return 20 if self.torch_version >= (2, 10) else 21

    def _nearest(
        self, parameter: str, parameters: Mapping[str, Any], at_least: int | None = None
    ) -> int | None:
        if parameter not in parameters:
            return None
        wanted = parameters[parameter]
        sizes = [size for size in self._sizes(parameter) if size >= (at_least or 0)]
        return min(sizes, key=lambda size: max(size, wanted) / min(size, wanted), default=at_least)

    def _parameter(self, name: str, settings: AllocatorSettings) -> Any:
        if name == "expandable_segments":
            return bool(settings.expandable_segments)
        if name == "limit_split_size":
            return settings.max_split_size_mb is not None
        if name == "collect_garbage":
            return settings.garbage_collection_threshold is not None
        if name == ROUNDUP:
            return _choice_of_table(self.torch_version).get(settings.roundup_divisions(self.torch_version))
        if name == "large_segment_size_mb":
            return settings.large_segment_size_mb or DEFAULT_LARGE_SEGMENT_MB
        if name == "max_non_split_rounding_mb":
            return settings.max_non_split_rounding_mb or NON_SPLIT_ROUNDINGS_MB[0]
        return getattr(settings, name)


_ORDER: Mapping[str, Callable[[SearchSpace, Mapping[str, Any]], bool]] = {
    "expandable_segments": lambda space, chosen: space.offers("expandable_segments"),
    ROUNDUP: lambda space, chosen: space.offers(ROUNDUP),
    "large_segment_size_mb": lambda space, chosen: space.offers("large_segment_size_mb"),
    "limit_split_size": lambda space, chosen: _fixed(chosen) and space.offers("max_split_size_mb"),
    "max_split_size_mb": lambda space, chosen: bool(chosen.get("limit_split_size")),
    "max_non_split_rounding_mb": lambda space, chosen: (
        bool(chosen.get("limit_split_size")) and space.offers("max_non_split_rounding_mb")
    ),
    "collect_garbage": lambda space, chosen: _fixed(chosen) and space.offers("garbage_collection_threshold"),
    "garbage_collection_threshold": lambda space, chosen: bool(chosen.get("collect_garbage")),
}
"""Parameter → whether it applies, in the order asked. A condition looks only at parameters above it."""


@lru_cache
def _choice_of_table(torch_version: TorchVersion) -> Mapping[tuple[int, ...], str]:
    """The choice that gives a table of divisions; the first one where two give the same."""
    found: dict[tuple[int, ...], str] = {}
    for choice in ROUNDUP_CHOICES:
        settings = AllocatorSettings.parse("" if choice == OFF else f"{ROUNDUP}:{choice}")
        found.setdefault(settings.roundup_divisions(torch_version), choice)
    return found


def _fixed(chosen: Mapping[str, Any]) -> bool:
    return not chosen.get("expandable_segments", False)


def _suggest(trial: Trial | FixedTrial, name: str, distribution: BaseDistribution) -> Any:
    if isinstance(distribution, CategoricalDistribution):
        return trial.suggest_categorical(name, distribution.choices)
    if isinstance(distribution, FloatDistribution):
        return trial.suggest_float(name, distribution.low, distribution.high, step=distribution.step)
    assert isinstance(distribution, IntDistribution)
    return trial.suggest_int(name, distribution.low, distribution.high, log=distribution.log)
