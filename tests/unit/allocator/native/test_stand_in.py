"""The stand-in device itself, called from a process that it is loaded into, without torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from autotune.allocator.native.build import stand_in_environment
from autotune.allocator.result import DeviceCall
from autotune.errors import UsageError
from autotune.units import MIB

pytestmark = pytest.mark.native

DEVICE_BYTES = 100 * MIB
OK, INVALID_VALUE, OUT_OF_MEMORY = 0, 1, 2
PROLOGUE = """
import ctypes, json
from ctypes import byref, c_int, c_int64, c_size_t, c_uint64, c_void_p
device = ctypes.CDLL(None)
MIB = 1 << 20

def malloc(size):
    pointer = c_void_p()
    return device.cudaMalloc(byref(pointer), c_size_t(size)), pointer.value

def free(address):
    return device.cudaFree(c_void_p(address))

def unused():
    amounts = c_size_t(), c_size_t()
    device.cudaMemGetInfo(byref(amounts[0]), byref(amounts[1]))
    return [amount.value for amount in amounts]

def create(size):
    handle = c_uint64()
    return device.cuMemCreate(byref(handle), c_size_t(size), None, c_uint64(0)), handle.value

def reserve(size):
    address = c_uint64()
    device.cuMemAddressReserve(byref(address), c_size_t(size), c_size_t(0), c_uint64(0), c_uint64(0))
    return address.value

def calls():
    log = ctypes.POINTER(c_int64 * 2).in_dll(device, "stand_in_calls")
    return [list(log[i]) for i in range(c_int64.in_dll(device, "stand_in_num_calls").value)]
"""


def answer(program: str) -> Any:
    """The value that a program gives to `answer` on a stand-in device of its own."""
    try:
        environment = {**os.environ, **stand_in_environment(DEVICE_BYTES)}
    except UsageError as error:
        pytest.skip(str(error))
    command = [sys.executable, "-c", f"{PROLOGUE}\n{program}\nprint(json.dumps(answer))"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_all_memory_is_free_at_the_start() -> None:
    assert answer("answer = unused()") == [DEVICE_BYTES, DEVICE_BYTES]


def test_each_allocation_takes_whole_pages_directly_below_the_one_before() -> None:
    (_, first), (_, second), (_, third), unused = answer(
        "answer = malloc(2 * MIB), malloc(3 * MIB), malloc(1), unused()[0]"
    )
    assert first - second == 4 * MIB
    assert second - third == 2 * MIB
    assert unused == DEVICE_BYTES - 8 * MIB


def test_reserved_addresses_ascend() -> None:
    first, second = answer("answer = reserve(20 * MIB), reserve(20 * MIB)")
    assert second - first == 20 * MIB


def test_memory_is_refused_when_it_is_used_up_and_given_again_when_freed() -> None:
    assert answer(
        """
first = malloc(99 * MIB)
refused = malloc(1)[0]
answer = refused, device.cudaGetLastError(), device.cudaGetLastError(), free(first[1]), malloc(100 * MIB)[0]
"""
    ) == [OUT_OF_MEMORY, OUT_OF_MEMORY, OK, OK, OK]


def test_freeing_what_was_not_allocated_or_is_freed_already_is_an_error() -> None:
    assert answer(
        """
address = malloc(4 * MIB)[1]
answer = free(12345 * MIB), free(address + 2 * MIB), free(address), free(address), free(None), unused()[0]
"""
    ) == [INVALID_VALUE, INVALID_VALUE, OK, INVALID_VALUE, OK, DEVICE_BYTES]


def test_many_allocations_are_remembered() -> None:
    assert answer(
        """
device.stand_in_set_device_bytes(c_size_t(1 << 40))
addresses = [malloc(1)[1] for _ in range(10_000)]
answer = sum(map(free, addresses)), sum(map(free, addresses)), unused()[0] == 1 << 40
"""
    ) == [0, 10_000 * INVALID_VALUE, True]


def test_pages_of_expandable_segments_count_as_memory() -> None:
    assert answer(
        """
made, handle = create(90 * MIB)
refused = create(12 * MIB)[0], malloc(12 * MIB)[0], create(3 * MIB)[0]
device.cuMemRelease(c_uint64(handle))
answer = made, refused, create(100 * MIB)[0]
"""
    ) == [OK, [OUT_OF_MEMORY, OUT_OF_MEMORY, INVALID_VALUE], OK]


def test_the_log_holds_what_pytorch_counts_as_one_call() -> None:
    page = 20 * MIB
    assert answer(
        f"""
start, page = reserve(200 * MIB), {page}
free(malloc(3 * MIB)[1])
device.cuMemSetAccess(c_uint64(start), c_size_t(3 * page), None, c_size_t(1))
for first, pages in ((0, 2), (2, 1)):  # two unmappings of neighbours, and a wait before each
    device.cudaStreamSynchronize(None)
    for i in range(first, first + pages):
        device.cuMemUnmap(c_uint64(start + i * page), c_size_t(page))
malloc(1000 * MIB)
answer = calls()
"""
    ) == [
        [DeviceCall.ALLOC, 3 * MIB],
        [DeviceCall.FREE, 3 * MIB],
        [DeviceCall.MAP, 3 * page],
        [DeviceCall.UNMAP, 2 * page],
        [DeviceCall.UNMAP, page],
    ]


def test_the_driver_s_functions_are_found_by_name() -> None:
    found, unknown, foreign = answer(
        """
def entry(name):
    function, found = c_void_p(), c_int(-1)
    status = device.cudaGetDriverEntryPoint(name, byref(function), c_uint64(0), byref(found))
    return status, found.value, function.value
address = lambda name: ctypes.cast(getattr(device, name), c_void_p).value
known = entry(b"cuMemCreate")
answer = known[2] == address("cuMemCreate"), entry(b"cuNewInCuda99")[:2], entry(b"printf_of_ours")[:2]
"""
    )
    assert found is True
    assert unknown == [OK, 0]  # exists, and says when called that it is not supported
    assert foreign == [500, 1]


@pytest.mark.parametrize(("name", "processors"), [("", 384), ("_v2", 388)])
def test_properties_lie_where_each_cuda_looks_for_them(name: str, processors: int) -> None:
    total, count = answer(
        f"""
properties = (ctypes.c_char * 2048)()
device.cudaGetDeviceProperties{name}(properties, 0)
answer = c_size_t.from_buffer(properties, 288).value, c_int.from_buffer(properties, {processors}).value
"""
    )
    assert (total, count) == (DEVICE_BYTES, 132)
