"""Traces: what a program asked of the allocator. `load` reads every kind of file, `save` writes ours."""

from __future__ import annotations

from pathlib import Path

from autotune.errors import TraceError
from autotune.trace.archive import ZIP_MAGIC, read_archive, write_archive
from autotune.trace.events import build_trace
from autotune.trace.snapshot import read_snapshot
from autotune.trace.trace import Recording, Trace
from autotune.trace.unpickle import GZIP_MAGIC

__all__ = ["Recording", "Trace", "load", "save"]

PICKLE_MAGIC = b"\x80"


def load(path: str | Path, *, device: int | None = None, partial: bool = False) -> Trace:
    """The trace in a file: a PyTorch memory snapshot (also inside gzip), bare event arrays, or our own file.

    What the file is, is told from its content. Reading runs no code from the file and needs no torch.

    Args:
        path: the file.
        device: GPU index, for snapshots of several; None = the busiest (a note of the recording says so).
        partial: accept a trace that begins in the middle, and take frees without an allocation for frees
            of blocks that were alive before.

    Raises:
        TraceError: no usable trace; one sentence with the path, the reason and what to do.
    """
    path = Path(path)
    try:
        if not path.is_file():
            raise TraceError("is not a file." if path.exists() else "does not exist.")
        with path.open("rb") as file:
            magic = file.read(4)
        if magic == ZIP_MAGIC:
            events, recording = read_archive(path)
        elif magic[:1] == PICKLE_MAGIC or magic[:2] == GZIP_MAGIC:
            events, recording = read_snapshot(path, device=device)
        else:
            raise TraceError(
                "is empty."
                if not magic
                else "is no trace: it is neither a PyTorch memory snapshot nor a file that autotune recorded."
            )
        return build_trace(events, recording, partial=partial)
    except OSError as error:
        raise TraceError(f"'{path}' cannot be read: {error.strerror or error}.") from None
    except TraceError as error:
        raise TraceError(f"'{path}' {error}") from None


def save(trace: Trace, path: str | Path) -> None:
    """Write the trace in our own format (.npz, whatever the name); the file appears whole or not at all.

    Raises:
        TraceError: the folder cannot be written, or the disk is full.
    """
    write_archive(trace, Path(path))
