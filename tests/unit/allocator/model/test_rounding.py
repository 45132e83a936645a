"""From requested bytes to the bytes of a block."""

from __future__ import annotations

import pytest

from tests.traces import MIB, Program, run


def block_size(requested: int, settings: str = "", torch: tuple[int, int] = (2, 14)) -> int:
    program = Program()
    program.alloc(requested)
    return run(program, settings, torch=torch).peak_allocated_bytes


@pytest.mark.parametrize(("requested", "size"), [(1, 512), (511, 512), (512, 512), (513, 1024)])
def test_a_request_is_rounded_up_to_512_bytes(requested: int, size: int) -> None:
    assert block_size(requested) == size


@pytest.mark.parametrize(
    ("requested", "size"),
    [
        (1200, 1536),  # at most 512 bytes a division: rounded to 512 as ever
        (2048, 2048),
        (2049, 2560),
        (3000, 3072),
        (5 * MIB, 5 * MIB),
        (5 * MIB + 1, 6 * MIB),
        (8 * MIB, 8 * MIB),
        (8 * MIB + 1, 10 * MIB),
    ],
)
def test_four_divisions_round_up_to_a_quarter_of_the_power_of_two_below(requested: int, size: int) -> None:
    assert block_size(requested, "roundup_power2_divisions:4") == size


def test_one_division_is_no_rounding() -> None:
    assert block_size(5 * MIB + 1, "roundup_power2_divisions:1") == 5 * MIB + 512


@pytest.mark.parametrize(
    ("requested", "size"),
    [
        (3 * MIB // 2 + 1, 2 * MIB),  # below the first key: as the first key
        (3 * MIB + 1, 4 * MIB),  # the first key itself
        (5 * MIB + 1, 5 * MIB + 512),  # between keys: no rounding
        (17 * MIB, 18 * MIB),  # the second key
        (33 * MIB, 48 * MIB),  # beyond the last key
    ],
)
def test_a_list_rounds_by_the_key_of_the_power_of_two_below(requested: int, size: int) -> None:
    assert block_size(requested, "roundup_power2_divisions:[2:2,16:8,>:2]") == size


@pytest.mark.parametrize(("torch", "size"), [((2, 9), 24 * MIB), ((2, 10), 18 * MIB)])
def test_up_to_torch_2_9_the_rest_of_a_list_replaces_its_last_key(torch: tuple[int, int], size: int) -> None:
    assert block_size(17 * MIB, "roundup_power2_divisions:[2:2,16:8,>:2]", torch) == size


def test_requests_below_two_megabytes_share_the_first_interval() -> None:
    assert block_size(5000, "roundup_power2_divisions:[1:2,>:1]") == 6144
