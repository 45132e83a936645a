"""What matters on this workload, by replaying its trace: which options, and what is left to gain.

Data only; `matters_text` puts it into words. Everything here is a replay's result; no rule of thumb is passed
off as a finding. Where a reason is given for an option that changes nothing, it is one that the trace proves.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from autotune import allocator
from autotune.allocator import Explanation, ReplayResult
from autotune.allocator.behaviour import behaviour
from autotune.allocator.conditions import Conditions
from autotune.errors import SettingsError
from autotune.measurement import Outcome
from autotune.settings import OPTIONS, AllocatorSettings, TorchVersion
from autotune.trace import Trace
from autotune.units import MIB

TRIED: Mapping[str, Sequence[Any]] = {
    "expandable_segments": (True,),
    "max_split_size_mb": (21, 32, 64, 128, 256, 512, 1024, 4096),
    "garbage_collection_threshold": (0.5, 0.6, 0.7, 0.8, 0.9),
    "roundup_power2_divisions": (2, 4, 8, 16),
    "large_segment_size_mb": (12, 32, 64, 128, 256, 512),
    "max_non_split_rounding_mb": (64, 256, 1024),
}
"""Values that stand for an option when it is changed alone."""
NEEDS = {"max_non_split_rounding_mb": "max_split_size_mb"}
"""Options that act only beside another."""


@dataclass(frozen=True, kw_only=True)
class OptionEffect:
    """One option changed alone, around the defaults and around the recommended settings."""

    option: str
    changes_something: bool
    reason: str | None
    """Why it changes nothing, where the trace proves it; None otherwise."""
    least_reserved_bytes: int | None
    """The smallest peak that it reaches alone, from the defaults; None where nothing completed."""


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """The recommended settings without one of their options."""

    option: str
    settings: str
    peak_reserved_bytes: int | None
    """None where that runs out of memory."""
    change_bytes: int | None
    """Against the recommended settings; positive = the option saves that much."""
    same_behaviour: bool
    """Whether nothing at all would be different."""


@dataclass(frozen=True, kw_only=True)
class Matters:
    """What a report says about options and limits."""

    default_reserved_bytes: int
    tuned_reserved_bytes: int
    live_bytes: int
    """Peak of the bytes requested, before any rounding: below it no setting can go."""
    options: tuple[OptionEffect, ...]
    left_out: tuple[LeftOut, ...]
    at_peak: Explanation
    """Where the bytes are under the recommended settings."""
    num_operations: int
    torch_version: TorchVersion

    def to_json(self) -> dict[str, Any]:
        """The JSON document."""
        return {
            "default_reserved_bytes": self.default_reserved_bytes,
            "tuned_reserved_bytes": self.tuned_reserved_bytes,
            "live_bytes": self.live_bytes,
            "options": [asdict(one) for one in self.options],
            "left_out": [asdict(one) for one in self.left_out],
            "at_peak": self.at_peak.to_json(),
        }


def what_matters(trace: Trace, recommended: AllocatorSettings, conditions: Conditions) -> Matters | None:
    """Replay single changes around the defaults and the recommendation.

    Returns:
        None where the recommended settings do not complete by replay.
    """
    defaults = AllocatorSettings()
    bases = list(dict.fromkeys((defaults, recommended)))
    varied = {
        (base, option): [replace(base, **{option: value}) for value in values]
        for base in bases
        for option, values in TRIED.items()
        if conditions.torch_version >= OPTIONS[option].since
    }
    left = {option: replace(recommended, **{option: None}) for option in _named(recommended)}  # type: ignore[arg-type]
    asked = [*bases, *left.values(), *itertools.chain.from_iterable(varied.values())]
    legal = [one for one in asked if _legal(one, conditions)]
    results = dict(
        zip(
            legal,
            allocator.replay_many(
                trace,
                legal,
                memory_limit=conditions.memory_limit,
                device_total=conditions.device_total,
                torch_version=conditions.torch_version,
            ),
            strict=True,
        )
    )
    tuned = results[recommended]
    if tuned.outcome is not Outcome.COMPLETED:
        return None
    return Matters(
        default_reserved_bytes=results[defaults].peak_reserved_bytes,
        tuned_reserved_bytes=tuned.peak_reserved_bytes,
        live_bytes=tuned.peak_requested_bytes,
        options=tuple(
            _effect(option, bases, varied, results, trace, conditions)
            for option in TRIED
            if conditions.torch_version >= OPTIONS[option].since
        ),
        left_out=tuple(_left_out(option, one, results, tuned) for option, one in left.items()),
        at_peak=allocator.explain(
            trace,
            recommended,
            memory_limit=conditions.memory_limit,
            device_total=conditions.device_total,
            torch_version=conditions.torch_version,
            fullest=True,
        ),
        num_operations=trace.num_operations,
        torch_version=conditions.torch_version,
    )


Varied = Mapping[tuple[AllocatorSettings, str], Sequence[AllocatorSettings]]
Results = Mapping[AllocatorSettings, ReplayResult]


def _effect(
    option: str,
    bases: Sequence[AllocatorSettings],
    varied: Varied,
    results: Results,
    trace: Trace,
    conditions: Conditions,
) -> OptionEffect:
    changes = any(
        behaviour(results[one]) != behaviour(results[base])
        for base in bases
        for one in varied[base, option]
        if one in results
    )
    alone = [results[one] for one in varied[AllocatorSettings(), option] if one in results]
    reserved = [one.peak_reserved_bytes for one in alone if one.outcome is Outcome.COMPLETED]
    return OptionEffect(
        option=option,
        changes_something=changes,
        reason=None if changes else _reason(option, trace, conditions, beside=_beside(option, bases)),
        least_reserved_bytes=min(reserved, default=None),
    )


def _beside(option: str, bases: Sequence[AllocatorSettings]) -> bool:
    return any(getattr(base, NEEDS[option]) is not None for base in bases) if option in NEEDS else True


def _reason(option: str, trace: Trace, conditions: Conditions, *, beside: bool) -> str | None:
    """What in the trace or the conditions keeps the option from acting."""
    sizes = trace.size[trace.is_alloc]
    largest = int(sizes.max()) if len(sizes) else 0
    if option == "garbage_collection_threshold" and conditions.memory_limit is None:
        return "it acts only under a memory limit, and there is none"
    if option in NEEDS and not beside:
        return f"it acts only beside {NEEDS[option]}, which is not recommended here"
    if option == "max_split_size_mb" and largest <= 20 * MIB:
        return "no request reaches 20 MB, the smallest size that it takes"
    if option == "large_segment_size_mb" and not ((sizes > MIB) & (sizes < 10 * MIB)).any():
        return "no request lies between 1 and 10 MiB, where it acts"
    return None


def _left_out(option: str, settings: AllocatorSettings, results: Results, tuned: ReplayResult) -> LeftOut:
    found = results.get(settings)
    completed = found is not None and found.outcome is Outcome.COMPLETED
    reserved = found.peak_reserved_bytes if found is not None and completed else None
    return LeftOut(
        option=option,
        settings=str(settings),
        peak_reserved_bytes=reserved,
        change_bytes=None if reserved is None else reserved - tuned.peak_reserved_bytes,
        same_behaviour=found is not None and behaviour(found) == behaviour(tuned),
    )


def _named(settings: AllocatorSettings) -> list[str]:
    return [name for name in settings.options if name in OPTIONS and OPTIONS[name].tunable]


def _legal(settings: AllocatorSettings, conditions: Conditions) -> bool:
    try:
        settings.validate(conditions.torch_version)
    except SettingsError:
        return False
    return True
