"""The warm process behind the native engine: imports torch once, forks a child for every replay.

Runs in an interpreter that has a CUDA build of torch, on the stand-in device; imports only the standard
library and torch. A request is one JSON message that brings two open files: where the answer goes, and the
trace.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import math
import os
import signal
import socket
import sys
import time
from array import array
from typing import Any

STATS = {
    "peak_requested_bytes": ("requested_bytes", "peak"),
    "peak_allocated_bytes": ("allocated_bytes", "peak"),
    "peak_active_bytes": ("active_bytes", "peak"),
    "peak_reserved_bytes": ("reserved_bytes", "peak"),
    "reserved_bytes_at_end": ("reserved_bytes", "current"),
}
COUNTS = ("num_device_alloc", "num_device_free", "num_alloc_retries")
# From 2.10 on the environment is read when torch is imported, so a forked child has to hand the settings in.
SET_SETTINGS = "_accelerator_setAllocatorSettings"
PR_SET_PDEATHSIG = 1
PRIVATE_POOLS: list[Any] = []
"""Kept to the end: a pool that goes out of scope gives its memory back, and the statistics would show it."""


Columns = list["array[int]"]
"""Of equal length: kind (1 = alloc), block, size, stream, pool."""


def main() -> None:
    """Greet, then answer requests until the socket closes."""
    del sys.path[0]  # the folder of this file, which is no place to import from
    import torch

    device = ctypes.CDLL(None)
    control = socket.socket(fileno=int(sys.argv[1]))
    built = bool(torch.version.cuda) and not getattr(torch.version, "hip", None)
    greeting = {
        "torch": str(torch.__version__),
        "cuda": built,
        "stand_in": hasattr(device, "stand_in_set_device_bytes"),
    }
    control.send(json.dumps(greeting).encode())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    gc.freeze()
    key = None
    columns: Columns = []
    while True:
        message, files, _, _ = socket.recv_fds(control, 1 << 16, 2)
        if not message:
            return
        request, (answer, trace) = json.loads(message), files
        if request["trace"] != key:
            key, columns = request["trace"], _load(trace)
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            _answer(answer, columns, request)
        os.close(answer)
        os.close(trace)


def _load(file: int) -> Columns:
    data = array("q")
    with open(os.dup(file), "rb") as stream:
        stream.seek(0)
        data.frombytes(stream.read())
    rows = len(data) // 5
    return [data[index * rows : (index + 1) * rows] for index in range(5)]


def _answer(answer: int, columns: Columns, request: dict[str, Any]) -> None:
    """In the child: replay, answer, and end without the interpreter's clean-up."""
    try:
        found = _replay(columns, request)
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
    with open(answer, "w") as stream:
        json.dump(found, stream)
    os._exit(0)


def _replay(columns: Columns, request: dict[str, Any]) -> dict[str, Any]:
    torch: Any = importlib.import_module("torch")
    gc.disable()
    limit, total = request["memory_limit"], request["device_total"]
    ctypes.CDLL(None).stand_in_set_device_bytes(ctypes.c_size_t(total))
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = request["settings"]
    if hasattr(torch._C, SET_SETTINGS):
        getattr(torch._C, SET_SETTINGS)(request["settings"])
    torch.cuda.init()
    if limit is not None:
        torch.cuda.set_per_process_memory_fraction(_fraction(min(limit, total), total))
    started = time.perf_counter()
    failed, calls_after = _run(columns, torch)
    seconds = time.perf_counter() - started
    stats = torch._C._cuda_memoryStats(0)
    return {
        "failed_operation": failed,
        "seconds": seconds,
        "device_calls": _device_calls(calls_after),
        **{name: stats[metric]["all"][which] for name, (metric, which) in STATS.items()},
        **{name: stats[name] for name in COUNTS},
    }


def _run(columns: Columns, torch: Any) -> tuple[int | None, list[tuple[int, int]]]:
    """The row that ran out of memory, if one did, and (row, device calls so far) where calls were made."""
    alloc = torch._C._cuda_cudaCachingAllocator_raw_alloc
    delete = torch._C._cuda_cudaCachingAllocator_raw_delete
    # A stream is only a name to the allocator; torch's own would repeat themselves after the thirty-second.
    handles = [stream << 16 for stream in range(max(columns[3], default=0) + 1)]
    PRIVATE_POOLS.extend(torch.cuda.MemPool() for _ in range(max(columns[4], default=0)))
    num_calls = memoryview(ctypes.c_int64.in_dll(ctypes.CDLL(None), "stand_in_num_calls")).cast("B").cast("q")
    where: dict[int, int] = {}
    calls_after: list[tuple[int, int]] = []
    seen = row = 0
    try:
        for row, (is_alloc, block, size, stream, pool) in enumerate(zip(*columns)):  # noqa: B905
            if not is_alloc:
                delete(where.pop(block))
                continue
            if pool:
                with torch.cuda.use_mem_pool(PRIVATE_POOLS[pool - 1]):
                    where[block] = alloc(size, handles[stream])
            else:
                where[block] = alloc(size, handles[stream])
            if num_calls[0] != seen:
                seen = num_calls[0]
                calls_after.append((row, seen))
    except torch.cuda.OutOfMemoryError:
        return row, [*calls_after, (row, num_calls[0])]
    return None, calls_after


def _device_calls(calls_after: list[tuple[int, int]]) -> tuple[list[int], list[int], list[int]]:
    """Row, kind and bytes of every call, from the stand-in's log."""
    rows: list[int] = []
    for row, count in calls_after:
        rows += [row] * (count - len(rows))
    log = ctypes.POINTER(ctypes.c_int64 * 2).in_dll(ctypes.CDLL(None), "stand_in_calls")
    return rows, [log[call][0] for call in range(len(rows))], [log[call][1] for call in range(len(rows))]


def _fraction(limit: int, total: int) -> float:
    """A share of the total that PyTorch, rounding down, turns back into exactly `limit` bytes."""
    fraction = limit / total
    while int(fraction * total) < limit:
        fraction = math.nextafter(fraction, 2.0)
    while int(fraction * total) > limit:
        fraction = math.nextafter(fraction, 0.0)
    return fraction


if __name__ == "__main__":
    main()
