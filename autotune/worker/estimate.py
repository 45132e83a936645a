"""Estimate: the script really runs, on the CPU, and its tensors' storages stand for a GPU's allocations."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

NOTES = (
    "Recorded on the CPU: sizes are the tensors'. Memory that libraries take for themselves on a GPU (cuBLAS "
    "and cuDNN workspaces, temporaries inside operators) is missing, so peaks are too low by an unknown "
    "amount: check the answer on the GPU it is for.",
)


class Estimate:
    """The CPU in place of a GPU."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._record: str | None = request.get("record")
        self._request = request

    def start(self, torch: Any) -> None:
        """Record from here on, and let a script that names "cuda" run anyway."""
        from . import recorder, redirect

        # What a compiler makes for the CPU says nothing about a GPU; run operator by operator.
        os.environ["TORCHDYNAMO_DISABLE"] = "1"
        if "torch._dynamo" in sys.modules:
            torch._dynamo.config.disable = True
        self._torch = torch
        self.total_bytes = self._request["device_total_bytes"]
        self.recorder = redirect.RedirectingRecorder(lambda tensor: not tensor.is_meta)
        redirect.install(self.recorder, self.total_bytes)
        redirect.quiet_about_cuda()
        recorder.record_threads(self.recorder)
        # On a GPU optimizers work on lists of tensors by default, and take temporaries as large as those.
        optimizer: Any = importlib.import_module("torch.optim.optimizer")
        optimizer._get_foreach_kernels_supported_devices = lambda: ["cpu", "cuda"]
        self.recorder.__enter__()  # type: ignore[no-untyped-call]

    @property
    def used(self) -> bool:
        """Whether the script made any tensor."""
        return self.recorder.position > 0

    def is_capturing(self) -> bool:
        """There are no CUDA graphs here."""
        return False

    def synchronize(self) -> None:
        """The CPU has done everything asked of it."""

    def boundary(self) -> dict[str, int]:
        """Number of events at the end of a step."""
        return {"position": self.recorder.position}

    def num_ooms(self) -> int:
        """Nothing runs out of a GPU's memory here."""
        return 0

    def finish(self, boundaries: list[dict[str, Any]], keep_recording: bool) -> dict[str, Any]:
        """Write the recording, if one was asked for and is worth it."""
        self.recorder.disable()
        found: dict[str, Any] = {"environment": {"device_total_bytes": self.total_bytes}}
        if self._record is not None and keep_recording:
            events = self.recorder.events([boundary["position"] for boundary in boundaries])
            events.write(
                self._record,
                {
                    "torch": self._torch.__version__,
                    "gpu": None,
                    "device_total_bytes": self.total_bytes,
                    "memory_fraction": None,
                    "settings": "",
                    "estimated": True,
                    "observed": {},
                    "script": self._request["script"],
                    "notes": [*NOTES, *self._request.get("notes", ())],
                },
            )
            found["recorded_events"] = len(events.action)
        return found
