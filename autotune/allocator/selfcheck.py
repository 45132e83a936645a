"""Self-check: the recording's own settings replayed, against what the recorded run really reserved.

A trace is only as good as this comparison. Above TOLERANCE the predictions for other settings are not to be
trusted either, and the check says what in the recording is the likely reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autotune.allocator.conditions import Conditions
from autotune.allocator.engines import open_engine
from autotune.allocator.result import ReplayResult
from autotune.errors import SettingsError
from autotune.settings import AllocatorSettings
from autotune.trace.trace import Trace
from autotune.units import format_bytes, format_change

TOLERANCE = 0.01


@dataclass(frozen=True, kw_only=True)
class SelfCheck:
    """What was compared. Without an observation or a replay there is no difference, and `reason` says why."""

    observed_bytes: int | None = None
    """Peak reserved in the recorded run."""
    replayed_bytes: int | None = None
    """Peak reserved when the same settings are replayed."""
    reason: str | None = None
    """One clause: why nothing could be compared, or what probably makes the difference."""

    @property
    def difference(self) -> float | None:
        """(replayed − observed) / observed."""
        if not self.observed_bytes or self.replayed_bytes is None:
            return None
        return (self.replayed_bytes - self.observed_bytes) / self.observed_bytes

    @property
    def trusted(self) -> bool | None:
        """Whether predictions from this trace are trusted; None where nothing could be compared."""
        return None if self.difference is None else abs(self.difference) <= TOLERANCE

    def sentence(self) -> str:
        """The finding, for people."""
        if self.difference is None:
            return f"Self-check: not possible, {self.reason}."
        assert self.observed_bytes is not None and self.replayed_bytes is not None
        found = (
            f"Self-check: the recorded run reserved {format_bytes(self.observed_bytes)}, its own settings "
            f"replayed {format_bytes(self.replayed_bytes)} "
            f"({format_change(self.replayed_bytes, self.observed_bytes)})"
        )
        if self.trusted:
            return f"{found}."
        return f"{found}; do not trust these predictions: {self.reason}."

    def to_json(self) -> dict[str, Any]:
        """The check as a JSON document."""
        return {
            "observed_peak_reserved_bytes": self.observed_bytes,
            "replayed_peak_reserved_bytes": self.replayed_bytes,
            "difference": self.difference,
            "trusted": self.trusted,
            "reason": None if self.trusted else self.reason,
        }


def self_check(trace: Trace, *, engine: str = "model") -> SelfCheck:
    """Replay the recording's own settings under its own conditions, and compare peak reserved."""
    recording = trace.recording
    if recording.estimated:
        return SelfCheck(reason="the trace was recorded without a GPU")
    observed = recording.observed.get("peak_reserved_bytes")
    if not observed:
        return SelfCheck(reason="the trace does not say what the recorded run reserved")
    try:
        settings = AllocatorSettings.parse(recording.settings)
        conditions = Conditions.of(trace, recorded_limit(trace), None, None)
        with open_engine(engine) as opened:
            replayed = conditions.replay(opened, trace, settings)
    except SettingsError as error:
        return SelfCheck(
            observed_bytes=observed, reason=f"the recorded settings cannot be replayed ({error})"
        )
    return SelfCheck(
        observed_bytes=observed,
        replayed_bytes=replayed.peak_reserved_bytes,
        reason=_likely_reason(trace, replayed),
    )


def recorded_limit(trace: Trace) -> int | None:
    """Bytes that the recorded run could reserve, as far as the trace tells; None = not limited, or not known.

    A run that ended in an out-of-memory error shows it. If the device was full: what was reserved and what
    the device still had. If a memory fraction stopped it, which a snapshot does not name: at least its peak.
    """
    recording, observed = trace.recording, trace.recording.observed
    if recording.memory_fraction is not None and recording.device_total_bytes:
        return int(recording.memory_fraction * recording.device_total_bytes)
    if trace.oom_size is None or "peak_reserved_bytes" not in observed:
        return None
    free = observed.get("device_free_bytes_at_oom", 0)
    full = 0 < free < trace.oom_size
    return max(
        observed["peak_reserved_bytes"],
        observed.get("reserved_bytes_at_end", 0) + free if full else 0,
    )


def _likely_reason(trace: Trace, replayed: ReplayResult) -> str:
    """What in this recording a replay cannot repeat, the most telling first."""
    if replayed.failed_operation is not None and trace.oom_size is None:
        return (
            f"the replay ran out of memory at operation {replayed.failed_operation:,}, which the run did not"
        )
    if trace.recording.observed.get("num_ooms", 0) > (trace.oom_size is not None):
        return "the run survived an out-of-memory error, which emptied its cache"
    if trace.num_preexisting:
        return (
            f"{trace.num_preexisting:,} blocks are older than the recording; record from the program's start"
        )
    if trace.recording.torch is None:
        return (
            "the trace does not name its torch, and releases place blocks differently; give it with --torch"
        )
    if trace.num_streams > 1:
        return f"frees of {trace.num_streams} streams wait for each other, and may complete at other moments"
    return "the run may have emptied the cache, or used memory in a way that a trace does not show"
