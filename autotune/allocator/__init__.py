"""What an allocator would do with a trace under some settings.

    replay          one trace, one configuration → ReplayResult
    replay_many     many configurations, on all cores
    smallest_fit    the smallest memory limit in which the trace completes
    explain         where the bytes are at the moment of peak reserved

Engines: `model` (our own, anywhere, millions of operations a second) and `native` (PyTorch's own, on a
stand-in for the CUDA runtime: the judge of `model`). `cost` turns driver calls into seconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from autotune.allocator.conditions import Conditions
from autotune.allocator.engines import ENGINE_NAMES, open_engine
from autotune.allocator.explain import Explanation, explain_replay
from autotune.allocator.fit import smallest_limit
from autotune.allocator.parallel import Progress, on_all_cores
from autotune.allocator.result import DeviceCall, DeviceCalls, Engine, ReplayResult
from autotune.allocator.workspace import may_adapt
from autotune.settings import AllocatorSettings, TorchVersion
from autotune.trace.trace import Trace

__all__ = [
    "ENGINE_NAMES",
    "DeviceCall",
    "DeviceCalls",
    "Engine",
    "Explanation",
    "ReplayResult",
    "explain",
    "may_adapt",
    "replay",
    "replay_many",
    "smallest_fit",
    "smallest_fit_many",
]


def replay(
    trace: Trace,
    settings: AllocatorSettings,
    *,
    memory_limit: int | None = None,
    device_total: int | None = None,
    torch_version: TorchVersion | None = None,
    engine: str = "model",
) -> ReplayResult:
    """Replay a trace from an empty allocator.

    Args:
        trace: what to replay.
        settings: the configuration.
        memory_limit: bytes that may be reserved, as `set_per_process_memory_fraction` sets it; None = no
            limit, even if the recorded run had one.
        device_total: bytes of the device, all free at the start; None = the recording's, else an H200's.
        torch_version: whose rules to follow; None = the recording's, else 2.11's.
        engine: one of ENGINE_NAMES.

    Raises:
        SettingsError: this release of torch would refuse the settings.
        UsageError: there is no such engine, or it cannot run here.
        TraceError: the trace frees what is not allocated.
    """
    conditions = Conditions.of(trace, memory_limit, device_total, torch_version)
    with open_engine(engine) as opened:
        return conditions.replay(opened, trace, settings)


def replay_many(
    trace: Trace,
    settings: Sequence[AllocatorSettings],
    *,
    memory_limit: int | None = None,
    device_total: int | None = None,
    torch_version: TorchVersion | None = None,
    engine: str = "model",
    workers: int | None = None,
    progress: Progress | None = None,
) -> list[ReplayResult]:
    """`replay` for each of the settings, in their order, with further arguments as for `replay`.

    Equal settings are replayed once. `workers` replays run at one time (None = one a core); `progress` is
    called with the number done so far.
    """
    conditions = Conditions.of(trace, memory_limit, device_total, torch_version)
    distinct = list(dict.fromkeys(settings))
    for each in distinct:
        each.validate(conditions.torch_version)
    results = on_all_cores(
        lambda opened, each: conditions.replay(opened, trace, each),
        distinct,
        engine=engine,
        workers=workers,
        progress=progress,
    )
    found = dict(zip(distinct, results, strict=True))
    return [found[each] for each in settings]


def smallest_fit(
    trace: Trace,
    settings: AllocatorSettings,
    *,
    device_total: int | None = None,
    torch_version: TorchVersion | None = None,
    engine: str = "model",
) -> int | None:
    """The smallest memory limit in bytes in which the trace completes; None if the device is too small.

    A multiple of 2 MiB: in it the trace completes, in 2 MiB less it does not. Completing is not monotone, so
    that some smaller limit can happen to suffice as well. Arguments as for `replay`.
    """
    conditions = Conditions.of(trace, None, device_total, torch_version)
    with open_engine(engine) as opened:
        return smallest_limit(opened, trace, settings, conditions)


def smallest_fit_many(
    trace: Trace,
    settings: Sequence[AllocatorSettings],
    *,
    device_total: int | None = None,
    torch_version: TorchVersion | None = None,
    engine: str = "model",
    workers: int | None = None,
    progress: Progress | None = None,
) -> list[int | None]:
    """`smallest_fit` for each of the settings, in their order; further arguments as for `replay_many`."""
    conditions = Conditions.of(trace, None, device_total, torch_version)
    for each in settings:
        each.validate(conditions.torch_version)
    return on_all_cores(
        lambda opened, each: smallest_limit(opened, trace, each, conditions),
        settings,
        engine=engine,
        workers=workers,
        progress=progress,
    )


def explain(
    trace: Trace,
    settings: AllocatorSettings,
    *,
    memory_limit: int | None = None,
    device_total: int | None = None,
    torch_version: TorchVersion | None = None,
    fullest: bool = False,
) -> Explanation:
    """Where the bytes are at the moment of peak reserved, as the model sees it; arguments as for `replay`.

    The moment is when the peak was first reached: why the allocator asked for more. With `fullest` it is when
    most was requested while that much was reserved: what is lost even then.
    """
    conditions = Conditions.of(trace, memory_limit, device_total, torch_version)
    settings.validate(conditions.torch_version)
    return explain_replay(trace, settings, conditions, fullest=fullest)
