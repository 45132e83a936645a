"""A snapshot from a stranger runs no code, and costs no more than its size explains."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import resource
from pathlib import Path

import pytest

from autotune.errors import TraceError
from autotune.trace import load, unpickle

HEADER = b"\x80\x04"


class Call:
    """Pickles as a call of a function."""

    def __init__(self, function: object, *arguments: object) -> None:
        self.function, self.arguments = function, arguments

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return self.function, self.arguments


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("depth", [0, 3])
def test_a_pickle_that_calls_something_is_refused_and_nothing_is_called(
    tmp_path: Path, protocol: int, depth: int
) -> None:
    touched, path = tmp_path / "touched", tmp_path / "hostile.pickle"
    hostile: object = Call(os.system, f"touch {touched}")
    for _ in range(depth):
        hostile = Call(list, [hostile])
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [[hostile]]}, protocol=protocol))
    with pytest.raises(TraceError, match="nothing of it was run"):
        load(path)
    assert not touched.exists()


@pytest.mark.parametrize("function", [eval, exec, getattr, __import__, pickle.loads])
def test_no_builtin_can_be_named(function: object, tmp_path: Path) -> None:
    path = tmp_path / "hostile.pickle"
    path.write_bytes(pickle.dumps(Call(function, "1"), protocol=4))
    with pytest.raises(TraceError, match="which no snapshot needs"):
        load(path)


HOSTILE = {
    "extension code": b"\x80\x02\x82\x01.",
    "persistent id": HEADER + b"\x8c\x01aQ.",
    "memo of two thousand million places": HEADER + b"}r\xff\xff\xff\x7f.",
    "string longer than the file": HEADER + b"\x8d" + (1 << 62).to_bytes(8, "little") + b".",
    "bytes of a length that overflows": HEADER + b"\x8e" + b"\xff" * 8 + b".",
    "bytearray of a terabyte": b"\x80\x05\x96" + (1 << 40).to_bytes(8, "little") + b".",
    "frame longer than memory": HEADER + b"\x95" + (1 << 50).to_bytes(8, "little") + b"}.",
    "a hash that recurses": HEADER + b"}(" + b")" + b"\x85" * 500_000 + b"K\x01u.",
    "lists in lists": HEADER + b"]" * 300_000 + b"a" * 299_999 + b".",
    "a list that holds itself": HEADER + b"]\x94h\x00a.",
    "a dict that holds itself": HEADER + b"}\x94\x8c\x0ddevice_tracesh\x00s.",
    "a million sets": HEADER + b"\x8f" * 3_000_000 + b".",
    "marks without end": HEADER + b"(" * 1_000_000,
    "a memo place that was never filled": HEADER + b"h\x05.",
    "appends without a list": HEADER + b"e.",
    "nothing on the stack": HEADER + b".",
    "header only": HEADER,
    "a future protocol": b"\x80\x09}.",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_and_broken_programs_are_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    path = tmp_path / "hostile.pickle"
    path.write_bytes(HOSTILE[name])
    with pytest.raises(TraceError) as caught:
        load(path)
    sentence = str(caught.value)
    assert "hostile.pickle" in sentence and "\n" not in sentence and "Error" not in sentence


def test_a_small_gzip_that_expands_without_end_stops_at_a_ceiling(tmp_path: Path) -> None:
    path = tmp_path / "bomb.pickle.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(HEADER)
        for _ in range(32):
            file.write(b"\x8f" * (1 << 20))  # 32 MiB of sets would take 7 GiB
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    with pytest.raises(TraceError, match="memory than its size explains"):
        load(path)
    grown = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert grown <= max(before, 1 << 20), "the reader took more than 1 GiB"


def test_every_cut_of_a_snapshot_is_refused(tmp_path: Path) -> None:
    event = {"action": "alloc", "addr": 1 << 45, "size": 5, "stream": 0}
    whole = pickle.dumps(
        {"segments": [], "device_traces": [[event] * 3], "allocator_settings": {}}, protocol=4
    )
    for length in range(2, len(whole)):
        with pytest.raises(unpickle.Refused):
            unpickle.read(io.BytesIO(whole[:length]))  # type: ignore[arg-type]


def test_bytes_flipped_in_a_real_snapshot_never_escape_as_another_error(tmp_path: Path) -> None:
    data = gzip.decompress((Path(__file__).parents[2] / "data" / "oom.pickle.gz").read_bytes())
    for offset in range(0, 60_000, 701):
        damaged = bytearray(data[:80_000] + data[-400:])
        damaged[offset] ^= 0x55
        with pytest.raises(unpickle.Refused):
            unpickle.read(io.BytesIO(bytes(damaged)))  # type: ignore[arg-type]
