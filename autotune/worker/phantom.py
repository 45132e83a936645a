"""Phantom: the script runs unmodified on a GPU that is not there, and PyTorch's own allocator keeps the
books.

The process sees a stand-in for CUDA's runtime and driver: one device that has memory, streams and events,
and cannot compute. CUDA tensors are fake, CPU tensors are real; see `phantom_mode`. What is asked of the
allocator is recorded as on a GPU. Numbers that only a GPU would compute are not known: where the script
reads one, it gets a stand-in (1, or False), and the notes say so; where the shape of a result depends on
one, the run ends.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from .gpu import Gpu

NOTES = (
    "Recorded on a phantom {name}: the script ran, and nothing was computed. Included: tensors, cuBLAS's "
    "workspaces, and others as measured on an H200. In 46 comparisons such peaks were within 0.1 % of an "
    "H200's in the median, at worst 12.6 % too low: check the answer on the GPU it is for.",
)

CHECKPOINTS = (".pt", ".pth", ".ckpt", ".safetensors", ".bin", ".pkl")
"""Endings of files that hold what a phantom GPU does not compute."""


class Phantom(Gpu):
    """A GPU that is not there, in place of one that is."""

    def __init__(self, request: dict[str, Any]) -> None:
        super().__init__(request)
        self._script = os.path.abspath(request["script"])
        self._selected: float | None = request.get("selected")
        self._reads: dict[str, tuple[int, str]] = {}
        self._remarks: list[str] = []
        self.end: Callable[..., None] = lambda outcome, reason, *notes: None
        """Ends the run with an outcome, a reason and notes; set by whoever runs it."""

    def start(self, torch: Any) -> None:
        """Record from here on, on the phantom device."""
        super().start(torch)
        os.environ.pop("LD_PRELOAD", None)  # what the script starts sees the machine as it is
        os.environ["TORCHDYNAMO_DISABLE"] = "1"
        if "torch._dynamo" in sys.modules:
            torch._dynamo.config.disable = True
        torch.cuda.init()
        from . import phantom_mode, phantom_patch, phantom_storage, phantom_workspace
        from .phantom_reduction import Processors

        self.storages = phantom_storage.Storages()
        about = torch.cuda.get_device_properties(0)
        threads = getattr(about, "max_threads_per_multi_processor", 2048)
        processors = Processors(about.multi_processor_count, threads)
        self.mode = phantom_mode.PhantomMode(
            self.storages,
            phantom_workspace.Workspaces(self.storages, (about.major, about.minor), processors),
            selected=self._selected,
            stand_in=self._read,
            stop=self._stop,
        )
        phantom_patch.install(self.mode, self._remark)
        sys.addaudithook(self._before)
        self.mode.__enter__()  # type: ignore[no-untyped-call]

    def synchronize(self) -> None:
        """There is nothing to wait for."""

    def _read(self, what: str) -> None:
        count, line = self._reads.get(what, (0, ""))
        self._reads[what] = (count + 1, line or self._line())

    def _remark(self, sentence: str) -> None:
        if sentence not in self._remarks:
            self._remarks.append(sentence)

    def _stop(self, operation: str, why: str) -> None:
        self.end("crashed", f"A phantom GPU cannot go on with {operation} at {self._line()}: {why}.")

    def _before(self, event: str, arguments: tuple[Any, ...]) -> None:
        """End before the script empties a checkpoint that it could then only fill with stand-ins."""
        if event != "open" or not isinstance(arguments[0], str) or not self.storages.enabled:
            return
        path, mode, flags = arguments
        if (
            path.endswith(CHECKPOINTS)
            and ("w" in (mode or "") or flags & os.O_TRUNC)
            and os.path.isfile(path)
        ):
            self._remark(f"The recording ended before {self._line()} would have overwritten {path}.")
            self.end("completed", None)

    def _line(self) -> str:
        """The script's line that is running; in a thread of autograd there is none."""
        frame = sys._getframe()
        while frame is not None:
            if frame.f_code.co_filename == self._script:
                return f"{os.path.basename(self._script)}:{frame.f_lineno}"
            frame = frame.f_back  # type: ignore[assignment]
        return "a line outside of the script"

    def finish(self, boundaries: list[dict[str, Any]], keep_recording: bool) -> dict[str, Any]:
        """Everything the allocator says of the run, marked as an estimate; writes the recording."""
        self.storages.disable()
        found = super().finish(boundaries, keep_recording)
        return {**found, "phantom_allocations": sum(count for count, _ in self.storages.asked.values())}

    def about(self) -> dict[str, Any]:
        """What a recording says of itself besides what every one does."""
        name = self._torch.cuda.get_device_name(0)
        return {
            "gpu": None,
            "estimated": True,
            "observed": {},
            "operators": self.storages.asked,
            "notes": self._notes(name),
        }

    def _notes(self, name: str) -> list[str]:
        notes = [NOTES[0].format(name=name), *self._remarks]
        for what, (count, line) in self._reads.items():
            times = "once" if count == 1 else f"{count:,} times"
            notes.append(
                f"The script read {what} that only a GPU computes ({times}, first at {line}) and got a "
                "stand-in (1, or False); if it decides anything by that, a real run differs."
            )
        if self.mode.guessed_shapes:
            names = ", ".join(sorted(self.mode.guessed_shapes))
            notes.append(
                f"Shapes of {names} depend on values: those of the script's data were used, with random "
                "numbers other than a GPU's."
            )
        if self.mode.streams_recorded:
            notes.append(
                "record_stream is used: memory is taken to come back at once, not when the stream is done."
            )
        return notes
