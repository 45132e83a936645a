"""Seconds of driver calls from the table of measurements."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.allocator.cost import CALL_MICROSECONDS, PAGE_MICROSECONDS, driver_seconds
from autotune.allocator.result import DeviceCall, DeviceCalls
from autotune.units import GIB, MIB


def calls(*rows: tuple[int, DeviceCall, int, int]) -> DeviceCalls:
    operation, kind, size, pages = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    return DeviceCalls(operation=operation, kind=kind.astype(np.uint8), size=size, pages=pages)


def seconds(kind: DeviceCall, size: int, pages: int = 1) -> float:
    return driver_seconds(calls((0, kind, size, pages)), 0)


@pytest.mark.parametrize("kind", [DeviceCall.ALLOC, DeviceCall.FREE])
def test_a_measured_size_costs_what_was_measured(kind: DeviceCall) -> None:
    for size, microseconds in CALL_MICROSECONDS[kind]:
        assert seconds(kind, size) == pytest.approx(microseconds * 1e-6)


def test_between_two_measured_sizes_the_cost_is_between_them() -> None:
    assert (
        seconds(DeviceCall.FREE, 256 * MIB)
        < seconds(DeviceCall.FREE, 500 * MIB)
        < seconds(DeviceCall.FREE, GIB)
    )


@pytest.mark.parametrize("kind", [DeviceCall.MAP, DeviceCall.UNMAP])
def test_mapping_is_paid_by_the_page(kind: DeviceCall) -> None:
    one, ten = seconds(kind, 20 * MIB), seconds(kind, 200 * MIB, 10)
    page = dict(PAGE_MICROSECONDS[kind])[20 * MIB] * 1e-6
    assert ten - one == pytest.approx(9 * page)


def test_few_large_pages_cost_less_than_many_small_ones() -> None:
    assert seconds(DeviceCall.MAP, 1280 * MIB, 20) < seconds(DeviceCall.MAP, 1280 * MIB, 64) / 2


def test_calls_before_the_first_operation_are_free() -> None:
    listed = calls((3, DeviceCall.ALLOC, MIB, 1), (7, DeviceCall.ALLOC, MIB, 1), (9, DeviceCall.FREE, MIB, 1))
    assert driver_seconds(listed, 10) == 0
    assert driver_seconds(listed, 7) == pytest.approx(72e-6)
    assert driver_seconds(listed, 0) == pytest.approx(111e-6)


def test_no_calls_cost_nothing() -> None:
    assert driver_seconds(DeviceCalls(), 0) == 0
