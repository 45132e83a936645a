"""Conditions of a replay besides the settings: as asked for, else as in the recording, else an H200's."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from autotune.allocator.result import H200_TOTAL_BYTES, Engine, ReplayResult
from autotune.allocator.workspace import may_adapt
from autotune.settings import AllocatorSettings, TorchVersion, parse_torch_version
from autotune.trace.trace import Trace

UNNAMED_TORCH: TorchVersion = (2, 11)
"""Whose rules a trace follows that does not name its torch: the last release that compares addresses."""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """Limits and release, as every engine takes them."""

    memory_limit: int | None
    """Bytes the process may reserve; None = not limited. A recording's own limit is never taken over."""
    device_total: int
    torch_version: TorchVersion

    @classmethod
    def of(
        cls,
        trace: Trace,
        memory_limit: int | None,
        device_total: int | None,
        torch_version: TorchVersion | None,
    ) -> Conditions:
        """The given conditions, completed from the trace's recording."""
        recording = trace.recording
        if torch_version is None:
            torch_version = parse_torch_version(recording.torch) if recording.torch else UNNAMED_TORCH
        return cls(
            memory_limit=memory_limit,
            device_total=device_total or recording.device_total_bytes or H200_TOTAL_BYTES,
            torch_version=torch_version,
        )

    def replay(self, engine: Engine, trace: Trace, settings: AllocatorSettings) -> ReplayResult:
        """Replay under these conditions.

        Raises:
            SettingsError: this release of torch would refuse the settings.
        """
        settings.validate(self.torch_version)
        result = engine.replay(trace, settings, **asdict(self))
        failed = result.failed_operation
        return result if failed is None else replace(result, may_adapt=may_adapt(trace, failed))
