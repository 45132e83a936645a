"""PyTorch's own allocator on small programs, and what becomes of its processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import venv
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from autotune.allocator.native import Native
from autotune.allocator.result import DeviceCall, ReplayResult
from autotune.errors import UsageError, WorkFailedError
from autotune.measurement import Outcome
from autotune.settings import AllocatorSettings
from autotune.units import GIB, MIB
from tests.processes import MARK, wait_until_gone, wait_until_left
from tests.traces import Program

pytestmark = pytest.mark.native

OPENS_A_NATIVE = """
from autotune.allocator.native import Native
native = Native()
print("ready", flush=True)
input()
"""


@pytest.fixture(scope="module")
def native() -> Iterator[Native]:
    try:
        with Native() as opened:
            yield opened
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture
def own_native(native: Native, monkeypatch: pytest.MonkeyPatch) -> Iterator[Native]:
    """One whose processes may be killed; they carry the mark `own`."""
    monkeypatch.setenv(MARK, "own")
    with Native() as opened:
        yield opened
    assert wait_until_gone("own") == []


def replay(native: Native, program: Program, settings: str = "", **conditions: Any) -> ReplayResult:
    given = {
        "memory_limit": None,
        "device_total": 4 * GIB,
        "torch_version": native.torch_version,
        **conditions,
    }
    return native.replay(program.trace(), AllocatorSettings.parse(settings), **given)


def programmed(*sizes: int) -> Program:
    program = Program()
    for size in sizes:
        program.alloc(size)
    return program


def calls(result: ReplayResult) -> list[tuple[int, str, int]]:
    made = result.device_calls
    rows = zip(made.operation.tolist(), made.kind.tolist(), made.size.tolist(), strict=True)
    return [(row, DeviceCall(kind).name, size) for row, kind, size in rows]


def test_a_byte_takes_a_block_of_512_in_a_segment_of_2_mib(native: Native) -> None:
    found = replay(native, programmed(1))
    assert (found.engine, found.outcome, found.operations) == ("native", Outcome.COMPLETED, 1)
    assert found.peak_requested_bytes == 1
    assert found.peak_allocated_bytes == found.peak_active_bytes == 512
    assert found.peak_reserved_bytes == found.reserved_bytes_at_end == 2 * MIB
    assert (found.num_device_alloc, found.num_device_free, found.num_alloc_retries) == (1, 0, 0)
    assert calls(found) == [(0, "ALLOC", 2 * MIB)]
    assert found.seconds > 0


def test_an_empty_trace_reserves_nothing(native: Native) -> None:
    found = replay(native, Program())
    assert (found.outcome, found.operations, found.peak_reserved_bytes) == (Outcome.COMPLETED, 0, 0)


def test_settings_take_effect_and_do_not_outlast_the_replay(native: Native) -> None:
    program = programmed(3 * MIB, 30 * MIB)
    expandable = replay(native, program, "expandable_segments:True")
    assert calls(expandable) == [(0, "MAP", 20 * MIB), (1, "MAP", 20 * MIB)]
    assert calls(replay(native, program)) == [(0, "ALLOC", 20 * MIB), (1, "ALLOC", 30 * MIB)]
    assert (
        replay(native, programmed(5 * MIB + 1), "roundup_power2_divisions:4").peak_allocated_bytes == 6 * MIB
    )


@pytest.mark.parametrize("limit", [20 * MIB, 20 * MIB + 7, 123_456_789])
def test_the_memory_limit_holds_to_the_byte(native: Native, limit: int) -> None:
    whole = limit // (2 * MIB) * 2 * MIB
    total = 150_109_880_320
    assert replay(native, programmed(whole), memory_limit=limit, device_total=total).failed_operation is None
    smaller = replay(native, programmed(whole), memory_limit=whole - 1, device_total=total)
    assert (smaller.failed_operation, smaller.operations) == (0, 0)
    assert smaller.outcome is Outcome.OUT_OF_MEMORY


def test_a_limit_above_the_device_is_the_device(native: Native) -> None:
    found = replay(native, programmed(64 * MIB, 2 * MIB), memory_limit=1 * GIB, device_total=64 * MIB)
    assert found.failed_operation == 1


def test_running_out_of_memory_releases_what_is_cached_first(native: Native) -> None:
    program = Program()
    program.cache(40 * MIB)
    program.alloc(70 * MIB)
    program.alloc(70 * MIB)
    found = replay(native, program, device_total=100 * MIB)
    assert (found.failed_operation, found.operations) == (3, 3)
    assert found.num_alloc_retries == 2
    assert calls(found) == [(0, "ALLOC", 40 * MIB), (2, "FREE", 40 * MIB), (2, "ALLOC", 70 * MIB)]


def test_unmapped_pages_are_listed_where_memory_ran_out(native: Native) -> None:
    program = Program()
    program.cache(100 * MIB)
    program.alloc(60 * MIB, stream=1)
    found = replay(native, program, "expandable_segments:True", device_total=100 * MIB)
    assert calls(found) == [(0, "MAP", 100 * MIB), (2, "UNMAP", 100 * MIB), (2, "MAP", 60 * MIB)]
    assert (found.num_device_alloc, found.num_device_free) == (2, 1)


def test_each_of_many_streams_has_segments_of_its_own(native: Native) -> None:
    program = Program()
    for stream in range(70):
        program.cache(3 * MIB, stream=stream)
    assert replay(native, program).num_device_alloc == 70


def test_each_pool_has_segments_of_its_own_and_keeps_them(native: Native) -> None:
    program = Program()
    for pool in range(4):
        program.cache(3 * MIB, 3 * MIB, pool=pool)
    found = replay(native, program)
    assert found.num_device_alloc == 4
    assert (found.num_device_free, found.reserved_bytes_at_end) == (0, 80 * MIB)


def test_threads_may_share_it(native: Native) -> None:
    programs = [programmed(*range(MIB, 30 * MIB, (index + 1) * MIB)) for index in range(6)]
    alone = [replay(native, program).peak_reserved_bytes for program in programs]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda program: replay(native, program).peak_reserved_bytes, programs * 3))
    assert together == alone * 3


def test_another_release_than_the_installed_is_refused(native: Native) -> None:
    have = "{}.{}".format(*native.torch_version)
    with pytest.raises(UsageError, match=f"installed torch {have}, not with 2.5; use --torch {have} or"):
        replay(native, programmed(1), torch_version=(2, 5))


def test_a_trace_that_frees_what_is_not_allocated_is_an_error_of_this_replay_alone(native: Native) -> None:
    program = Program()
    block = program.alloc(1)
    program.free(block, block)
    with pytest.raises(WorkFailedError, match="PyTorch's allocator failed under the default settings"):
        replay(native, program)
    assert replay(native, programmed(1)).outcome is Outcome.COMPLETED


def test_an_interpreter_without_torch_is_refused(native: Native, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    with pytest.raises(
        UsageError, match=r"cannot import torch in .*/bare/bin/python .*No module named 'torch'"
    ):
        Native(str(tmp_path / "bare" / "bin" / "python"))


def test_an_interpreter_that_does_not_exist_is_refused(native: Native) -> None:
    with pytest.raises(UsageError, match=r"cannot start /no/such/python"):
        Native("/no/such/python")


@pytest.mark.parametrize(
    ("version", "cuda", "words"),
    [
        ("2.13.0+cpu", "None", "has torch 2.13.0[+]cpu without CUDA;"),
        (
            "2.5.1+cu124",
            "'12.4'",
            "needs a CUDA build of torch 2.6 or newer, and .* has torch 2.5.1[+]cu124;",
        ),
        ("2.3.0+cu121", "'12.1'", "2.3.0[+]cu121 is too old"),
    ],
)
def test_a_torch_that_cannot_be_used_is_refused_and_its_process_ended(
    native: Native, version: str, cuda: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text(f"__version__ = '{version}'\nclass version:\n    cuda = {cuda}\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv(MARK, "refused")
    with pytest.raises(UsageError, match=words):
        Native()
    assert wait_until_gone("refused") == []


def test_after_close_no_process_is_left_and_closing_again_is_harmless(own_native: Native) -> None:
    replay(own_native, programmed(1))
    assert len(wait_until_left("own", 1)) == 1
    own_native.close()
    assert wait_until_gone("own") == []
    own_native.close()


def test_killed_between_replays_it_starts_again(own_native: Native) -> None:
    (process,) = wait_until_left("own", 1)
    process.kill()
    process.wait()
    assert replay(own_native, programmed(1)).peak_reserved_bytes == 2 * MIB


def test_killed_during_a_replay_it_says_so_and_starts_again(own_native: Native) -> None:
    (process,) = wait_until_left("own", 1)
    process.suspend()  # so that the replay is surely under way
    killer = threading.Timer(0.2, process.kill)
    killer.start()
    with pytest.raises(WorkFailedError, match=r"ended from outside \(signal 9\); run it again"):
        replay(own_native, programmed(1))
    killer.join()
    assert replay(own_native, programmed(1)).peak_reserved_bytes == 2 * MIB


def test_a_replay_that_crashes_fails_alone(own_native: Native) -> None:
    program = Program()
    for _ in range(500_000):
        program.cache(1)
    (process,) = wait_until_left("own", 1)

    def kill_child() -> None:
        while not (children := process.children()):
            pass
        children[0].send_signal(signal.SIGKILL)

    killer = threading.Thread(target=kill_child)
    killer.start()
    with pytest.raises(WorkFailedError, match="PyTorch's allocator crashed under 'max_split_size_mb:64'"):
        replay(own_native, program, "max_split_size_mb:64")
    killer.join()
    assert wait_until_left("own", 1) == [process]
    assert replay(own_native, programmed(1)).peak_reserved_bytes == 2 * MIB


def test_when_its_owner_is_killed_it_ends(native: Native) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OPENS_A_NATIVE], env={**os.environ, MARK: "owner"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert owner.stdout is not None and owner.stdin is not None
    assert owner.stdout.readline() == b"ready\n"
    assert len(wait_until_left("owner", 2)) == 2
    psutil.Process(owner.pid).kill()
    owner.communicate()
    assert wait_until_gone("owner") == []
