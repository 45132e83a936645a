"""How long a large PyTorch snapshot takes to read, and how much memory: 500,000 events, 25 frames deep.

    python -m benchmarks.bench_snapshot [EVENTS] [DEPTH]

The snapshot is made up, laid out as torch pickles its own: the frames of a place in the code are shared
through the pickle's memo, the list of them is new for each stack, and both events of a free share one list.
Budget: 5 s and 1 GiB, for the process that asks and the one that unpickles together.
"""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LIVE_BLOCKS = 200

READ = """
import json, re, resource, sys, time
from pathlib import Path
from autotune.trace import load
start = time.perf_counter()
trace = load(sys.argv[1])
seconds = time.perf_counter() - start
# Not ru_maxrss, which begins with the size of the process that started this one.
own = 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
child = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
found = {"operations": trace.num_operations, "seconds": seconds, "peak_resident_bytes": own + child}
print(json.dumps(found))
"""


def history(num_events: int, depth: int) -> list[dict[str, Any]]:
    """Events of one device, `LIVE_BLOCKS` blocks alive at a time."""
    draw = random.Random(0)
    places = [
        {"name": f"forward_{n}", "filename": f"/site-packages/m{n % 97}.py", "line": n} for n in range(2000)
    ]
    stacks = [[draw.choice(places) for _ in range(depth)] for _ in range(5000)]
    events: list[dict[str, Any]] = []
    live: list[tuple[int, int]] = []

    def add(action: str, addr: int, size: int, frames: list[dict[str, Any]]) -> None:
        # The action is a new string each time, as torch makes it.
        events.append({
            "action": "".join(list(action)), "addr": addr, "size": size, "stream": 0,
            "time_us": 1_796_096_843_660_267 + 7 * len(events), "compile_context": "N/A", "user_metadata": "",
            "frames": frames,
        })  # fmt: skip

    while len(events) < num_events:
        live.append(((1 << 47) + len(events) * 512, draw.randrange(1, 1 << 22)))
        add("alloc", *live[-1], list(draw.choice(stacks)))
        if len(live) > LIVE_BLOCKS:
            block, frames = live.pop(draw.randrange(len(live))), list(draw.choice(stacks))
            add("free_requested", *block, frames)
            add("free_completed", *block, frames)
    return events


def measure(num_events: int = 500_000, depth: int = 25) -> dict[str, float]:
    """Write a snapshot, read it in a process of its own; seconds, bytes, operations."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "snapshot.pickle")
        document = {"segments": [], "device_traces": [history(num_events, depth)], "allocator_settings": {}}
        path.write_bytes(pickle.dumps(document, protocol=4))
        del document
        done = subprocess.run([sys.executable, "-c", READ, path], capture_output=True, text=True, check=True)
        return {"file_bytes": path.stat().st_size, **json.loads(done.stdout)}


if __name__ == "__main__":
    print(json.dumps(measure(*map(int, sys.argv[1:])), indent=2))
