"""Gpu: what the CUDA caching allocator is told before the script, and asked at its steps and its end."""

from __future__ import annotations

from typing import Any

from . import trace_file

MAX_EVENTS = 4_000_000
"""Size of PyTorch's ring buffer for allocation events; a recording that fills it is cut and useless."""

PEAKS = ("requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes")
COUNTERS = {
    "num_device_alloc": "num_device_alloc",
    "num_device_free": "num_device_free",
    "num_alloc_retries": "num_alloc_retries",
    "num_ooms": "num_ooms",
    # How many events of each kind a recording has at a boundary.
    "allocs": "allocation.all.allocated",
    "frees_requested": "allocation.all.freed",
    "frees_completed": "active.all.freed",
}
"""Our name of a count → PyTorch's, in `torch.cuda.memory_stats()`."""


class Gpu:
    """The one GPU that the script sees, through `torch.cuda`."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._fraction: float | None = request.get("memory_fraction")
        self._limit: int | None = request.get("memory_limit_bytes")
        self._record: str | None = request.get("record")
        self._request = request
        self._peaks = dict.fromkeys(PEAKS, 0)
        self._reset_counts = dict.fromkeys(COUNTERS, 0)

    def start(self, torch: Any) -> None:
        """Arrange for everything that must happen between CUDA's initialisation and the first allocation."""
        self._torch = torch
        torch.cuda._lazy_call(self._initialised)
        for name in ("_cuda_resetPeakMemoryStats", "_accelerator_resetPeakStats"):
            self._before(name, self._keep_peaks)
        for name in ("_cuda_resetAccumulatedMemoryStats", "_accelerator_resetAccumulatedStats"):
            self._before(name, self._keep_counts)

    def _initialised(self) -> None:
        cuda = self._torch.cuda
        self.total_bytes = cuda.get_device_properties(0).total_memory
        if self._limit is not None:
            self._fraction = min(1.0, self._limit / self.total_bytes)
        if self._fraction is not None:
            cuda.set_per_process_memory_fraction(self._fraction, 0)
        if self._record is not None:
            cuda.memory._record_memory_history(max_entries=MAX_EVENTS, context=None)

    def _before(self, name: str, note: Any) -> None:
        """Scripts reset the statistics to log peaks per step; note what would be lost."""
        original = getattr(self._torch._C, name, None)
        if original is None:
            return

        def reset(*args: Any) -> Any:
            note()
            return original(*args)

        setattr(self._torch._C, name, reset)

    def _keep_peaks(self) -> None:
        statistics = self._torch.cuda.memory_stats(0)
        for name in PEAKS:
            self._peaks[name] = max(self._peaks[name], statistics.get(f"{name}.all.peak", 0))

    def _keep_counts(self) -> None:
        self._reset_counts = self._counts()

    def _counts(self) -> dict[str, int]:
        statistics = self._torch.cuda.memory_stats(0)
        return {
            name: self._reset_counts[name] + statistics.get(theirs, 0) for name, theirs in COUNTERS.items()
        }

    @property
    def used(self) -> bool:
        """Whether the script put anything on the GPU."""
        return self._torch.cuda.is_initialized() and self._counts()["allocs"] > 0

    def is_capturing(self) -> bool:
        """Whether a CUDA graph is being captured: kernels are noted then, not run."""
        cuda = self._torch.cuda
        return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())

    def synchronize(self) -> None:
        """Wait until the GPU has done everything asked of it."""
        if self._torch.cuda.is_initialized():
            self._torch.cuda.synchronize()

    def boundary(self) -> dict[str, int]:
        """Reserved bytes and counts at the end of a step."""
        if not self._torch.cuda.is_initialized():
            return {"reserved_bytes": 0, **dict.fromkeys(COUNTERS, 0)}
        return {"reserved_bytes": self._torch.cuda.memory_reserved(0), **self._counts()}

    def num_ooms(self) -> int:
        """How often a request failed, the script's own handling of it notwithstanding."""
        return self._counts()["num_ooms"] if self._torch.cuda.is_initialized() else 0

    def finish(self, boundaries: list[dict[str, Any]], keep_recording: bool) -> dict[str, Any]:
        """Everything the allocator says of the run; writes the recording, if asked for and worth it."""
        cuda = self._torch.cuda
        if not cuda.is_initialized():
            return {}
        self._keep_peaks()
        snapshot: dict[str, Any] = {}
        if cuda.get_allocator_backend() == "native":
            snapshot = cuda.memory._snapshot()
        found = {
            "peaks": {f"peak_{name}": self._peaks[name] for name in PEAKS},
            "counts": self._counts(),
            "allocator_settings": snapshot.get("allocator_settings"),
            "environment": {
                "gpu": cuda.get_device_name(0),
                "device_total_bytes": self.total_bytes,
                "backend": cuda.get_allocator_backend(),
            },
        }
        if self._record is not None and keep_recording:
            found["recorded_events"] = self._write(snapshot, boundaries, found)
        return found

    def _write(
        self, snapshot: dict[str, Any], boundaries: list[dict[str, Any]], found: dict[str, Any]
    ) -> int:
        events = snapshot["device_traces"][0]
        if len(events) >= MAX_EVENTS:
            raise RuntimeError(
                f"the script made more than {MAX_EVENTS:,} allocation events; record fewer steps"
            )
        pools = {(0, 0): 0}
        trace = trace_file.Events()
        for event in events:
            pool = pools.setdefault(tuple(event.get("pool_id", (0, 0))), len(pools))
            trace.add(
                event["action"], event.get("addr", 0), event.get("size", 0),
                event.get("stream", 0), event.get("time_us", 0), pool,
            )  # fmt: skip
        counts = found["counts"]
        trace.step_ends = [trace.position_after(boundary) for boundary in boundaries]
        trace.write(
            self._record or "",
            {
                "torch": self._torch.__version__,
                "gpu": found["environment"]["gpu"],
                "device_total_bytes": self.total_bytes,
                "memory_fraction": self._fraction,
                "settings": self._request["settings"],
                "estimated": False,
                "observed": {
                    **found["peaks"],
                    **{
                        name: counts[name]
                        for name in ("num_device_alloc", "num_device_free", "num_alloc_retries")
                    },
                },
                "script": self._request["script"],
                "notes": [],
                **self.about(),
            },
        )
        return len(events)

    def about(self) -> dict[str, Any]:
        """What a recording says of itself besides what every one does."""
        return {}
