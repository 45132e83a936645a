"""The first trials of a study: what everything is compared with, and what people recommend to each other."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from autotune.errors import SettingsError
from autotune.report.stored import Role
from autotune.settings import ENVIRONMENT_VARIABLE, AllocatorSettings, TorchVersion
from autotune.study.space import Parameters, SearchSpace

GENERAL_VARIABLE = "PYTORCH_ALLOC_CONF"
"""Read for CUDA from torch 2.10 on, and only where PYTORCH_CUDA_ALLOC_CONF is not set at all."""

FOLKLORE = (
    "max_split_size_mb:128",
    "max_split_size_mb:512",
    "garbage_collection_threshold:0.8",
    "max_split_size_mb:512,garbage_collection_threshold:0.8",
    "roundup_power2_divisions:8",
    "max_split_size_mb:32",
    "roundup_power2_divisions:[256:1,512:2,1024:4,2048:8,>:8]",
)
"""Strings from PyTorch's documentation and from forums, the frequent ones first."""

_PLAIN_EXPANDABLE = tuple(
    f"expandable_segments:True,roundup_power2_divisions:{divisions}" for divisions in (2, 4, 8, 16)
)
"""The sampler repeats these few again and again, so they are tried outright and it looks elsewhere."""

_PLAIN_LARGE_SEGMENTS = tuple(f"large_segment_size_mb:{size}" for size in (64, 128, 256, 512))
"""What saves memory most often where expandable segments may not be used."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Settings to try and why."""

    role: Role
    settings: AllocatorSettings
    parameters: Parameters | None
    """Their place in the search space; None when they lie outside it."""
    repeated: bool = False
    """True for a run on purpose of what was run before, to learn how much runs differ."""


def first_candidates(
    space: SearchSpace,
    *,
    environment: AllocatorSettings | None = None,
    given: Iterable[AllocatorSettings] = (),
) -> list[Candidate]:
    """The trials that every study begins with, in order, each behaviour by rule once.

    Args:
        space: what may be proposed; whatever it does not admit is left out.
        environment: what the user's environment sets already.
        given: what the user asked for by name.
    """
    wanted = [
        (Role.DEFAULT, AllocatorSettings()),
        (Role.EXPANDABLE, AllocatorSettings(expandable_segments=True)),
    ]
    if environment is not None:
        wanted.append((Role.ENVIRONMENT, environment))
    wanted += [(Role.GIVEN, settings) for settings in given]
    wanted += [(Role.FOLKLORE, AllocatorSettings.parse(text)) for text in FOLKLORE]
    plain = _PLAIN_EXPANDABLE if space.offers("expandable_segments") else _PLAIN_LARGE_SEGMENTS
    wanted += [(Role.SAMPLED, AllocatorSettings.parse(text)) for text in plain]
    distinct: dict[str, Candidate] = {}
    for role, settings in wanted:
        if space.admits(settings):
            found = candidate(space, role, settings)
            distinct.setdefault(str(found.settings), found)
    return list(distinct.values())


def candidate(space: SearchSpace, role: Role, settings: AllocatorSettings) -> Candidate:
    """A candidate from settings, reduced to the shortest string that behaves the same."""
    shortest = space.canonical(settings)
    return Candidate(role=role, settings=shortest, parameters=space.parameters(shortest))


def environment_settings(
    torch_version: TorchVersion | None, environ: Mapping[str, str] = os.environ
) -> AllocatorSettings | None:
    """What the environment makes this torch use; None when it sets nothing.

    With `torch_version` None (not known yet) either variable is only checked.

    Raises:
        SettingsError: a variable that counts holds something PyTorch would refuse or abort on.
    """
    names = [ENVIRONMENT_VARIABLE]
    if torch_version is None or torch_version >= (2, 10):
        names.append(GENERAL_VARIABLE)
    for name in names:
        if name in environ:
            return _parsed(name, environ[name], torch_version)
    return None


def _parsed(name: str, text: str, torch_version: TorchVersion | None) -> AllocatorSettings:
    try:
        settings = AllocatorSettings.parse(text)
        if torch_version is not None:
            settings.validate(torch_version)
    except SettingsError as error:
        raise SettingsError(
            f"{name} is set in your environment, but cannot be used: {error} Or unset {name}."
        ) from error
    return settings
