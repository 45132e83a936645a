"""Building the stand-in device with the machine's C compiler, once, into the user's cache."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from autotune.errors import UsageError

FOLDER = Path(__file__).parent
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O2", "-shared", "-fPIC")
# The names matter: who opens one of these finds the library that is loaded under that name already.
LIBRARIES = {
    "libcuda.so.1": ("memory.c", "device.c", "driver.c"),
    "libnvidia-ml.so.1": ("nvml.c",),
}
SOURCES = ("stand_in.h", *(source for sources in LIBRARIES.values() for source in sources))


def stand_in_environment(device_total: int) -> dict[str, str]:
    """Environment variables that make a process see the stand-in device instead of a GPU.

    Args:
        device_total: bytes of memory that the device shall have.

    Raises:
        UsageError: the machine cannot build or use the stand-in; the sentence says why.
    """
    folder = build()
    return {
        "LD_PRELOAD": " ".join(str(folder / name) for name in LIBRARIES),
        "STAND_IN_DEVICE_BYTES": str(device_total),
        # Expandable segments otherwise ask NVML about ways of sharing them, which a stand-in cannot do.
        "TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC": "0",
        "CUDA_VISIBLE_DEVICES": "0",
    }


def build() -> Path:
    """The folder of the compiled stand-in; built when these sources were not built before.

    It fits every build of torch: what differs between CUDA 11, 12 and 13 is decided when it runs.

    Raises:
        UsageError: not Linux on x86-64, no C compiler, the compiler failed, or no folder to build in.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise UsageError(
            f"--engine native needs Linux on x86-64, and this is {sys.platform} on {platform.machine()}; "
            "use --engine model."
        )
    sources = b"".join((FOLDER / source).read_bytes() for source in SOURCES)
    digest = hashlib.sha256(sources + repr((FLAGS, LIBRARIES)).encode()).hexdigest()[:16]
    target = _cache() / f"stand-in-{digest}"
    if not target.is_dir():
        _compile(target)
    return target


def _compile(target: Path) -> None:
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise UsageError(
            f"--engine native needs a C compiler ({', '.join(COMPILERS)}), and there is none; "
            "install one or use --engine model."
        )
    # Built beside its place and then moved there whole, so that several processes can build at once.
    with tempfile.TemporaryDirectory(dir=target.parent, ignore_cleanup_errors=True) as folder:
        built = Path(folder) / "built"
        built.mkdir()
        for name, sources in LIBRARIES.items():
            command = [compiler, *FLAGS, f"-Wl,-soname,{name}", "-o", str(built / name)]
            command += [*(str(FOLDER / source) for source in sources), "-ldl"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise UsageError(
                    f"{compiler} cannot build the stand-in device ({_complaint(done.stderr)}); "
                    "use --engine model."
                )
        try:
            built.rename(target)
        except OSError:
            if not target.is_dir():  # Another process was faster, else.
                raise


def _complaint(stderr: str) -> str:
    lines = stderr.strip().splitlines() or ["it said nothing"]
    return next((line for line in lines if "error" in line), lines[-1])


def _cache() -> Path:
    """The user's cache folder; one among the system's temporary folders where that is not usable."""
    for folder in _caches():
        if _usable(folder):
            return folder
    tried = " and ".join(map(str, _caches()))
    raise UsageError(
        f"--engine native cannot build its stand-in device in {tried}: it needs a folder of yours without a "
        "space or a colon in its name; set XDG_CACHE_HOME to one or use --engine model."
    )


def _usable(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A folder of this name that somebody else made could hold somebody else's code.
        ours = folder.stat().st_uid == os.getuid() and os.access(folder, os.W_OK)
    except OSError:
        return False
    return ours and not set(str(folder)) & set(" :")  # The loader would take such a name for two.


def _caches() -> Iterator[Path]:
    base = os.environ.get("XDG_CACHE_HOME")
    yield (Path(base) if base else Path.home() / ".cache") / "autotune"
    yield Path(tempfile.gettempdir()) / f"autotune-{os.getuid()}"
