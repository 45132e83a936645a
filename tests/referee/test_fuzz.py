"""The model against PyTorch's own allocator on random programs: a bounded number, the same ones each time.

`python -m tests.referee.fuzz` goes on for as long as asked. A disagreement is fixed in the model, and its
shrunk program becomes a test in tests/unit/allocator/model.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import hypothesis
import pytest

from autotune.allocator.model import Model
from autotune.allocator.native import Native
from autotune.allocator.parallel import usable_cores
from autotune.errors import UsageError
from autotune.measurement import Outcome
from autotune.settings import AllocatorSettings
from autotune.units import GIB, MIB
from tests.referee.cases import Case, cases, settings, source
from tests.referee.fuzz import Tally, fuzz_round
from tests.referee.referee import Disagreement, compare, differing, replay
from tests.traces import Program

PROGRAMS = 350
TORCHES = [(2, minor) for minor in range(6, 16)]


@pytest.fixture(scope="module")
def native() -> Iterator[Native]:
    try:
        with Native() as opened:
            yield opened
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(usable_cores()) as pool:
        yield pool


@pytest.mark.native
def test_the_model_agrees_with_pytorch_in_every_count_and_byte(
    native: Native, executor: ThreadPoolExecutor
) -> None:
    tally = Tally()
    fuzz_round(native, executor, seed=20261201, tally=tally, programs=PROGRAMS)
    # The programs must be worth comparing: many run out of memory or come close, most complete.
    assert tally.cases > PROGRAMS
    assert tally.cases * 0.1 < tally.ran_out < tally.cases * 0.5
    assert tally.retried > tally.cases * 0.1


@pytest.mark.native
def test_a_disagreement_prints_a_program_that_repeats_it(
    native: Native, executor: ThreadPoolExecutor
) -> None:
    program = Program()
    program.free(program.alloc(3 * MIB, stream=1))
    program.alloc(5 * MIB, pool=1)
    case = Case(program.trace(), "max_split_size_mb:64", 2 * GIB, 4 * GIB, native.torch_version)
    real = replay(native, case)
    with pytest.raises(Disagreement) as raised:
        compare([case], _Lying(native), executor)
    text = str(raised.value)
    assert f"peak_reserved_bytes: model {real.peak_reserved_bytes}, native 7" in text
    repeated: dict[str, object] = {"Program": Program, "run": lambda *_, **__: None}
    exec(text, repeated)
    assert source(repeated["program"].trace()) == source(case.trace)  # type: ignore[attr-defined]
    assert "memory_limit=2147483648, device_total=4294967296" in text


@pytest.mark.native
def test_a_difference_in_one_driver_call_is_found(native: Native) -> None:
    def of(size: int) -> Case:
        program = Program()
        program.alloc(size)
        return Case(program.trace(), "", None, 4 * GIB, native.torch_version)

    small, same_counts = replay(native, of(40 * MIB)), replay(Model(), of(40 * MIB))
    assert list(differing(same_counts, small)) == []
    late = replay(Model(), of(42 * MIB))
    assert any(line.startswith("device call 0") for line in differing(late, small))


@pytest.mark.parametrize("torch", TORCHES)
@hypothesis.settings(max_examples=30, derandomize=True, database=None)
@hypothesis.given(data=hypothesis.strategies.data())
def test_random_settings_are_legal_for_their_release(
    torch: tuple[int, int], data: hypothesis.strategies.DataObject
) -> None:
    AllocatorSettings.parse(data.draw(settings(torch))).validate(torch)


@hypothesis.settings(max_examples=50, derandomize=True, database=None, deadline=None)
@hypothesis.given(cases((2, 14)))
def test_random_programs_free_each_block_at_most_once_and_after_its_allocation(drawn: list[Case]) -> None:
    for case in drawn:
        live: set[int] = set()
        for is_alloc, block in zip(case.trace.is_alloc.tolist(), case.trace.block.tolist(), strict=True):
            if is_alloc:
                live.add(block)
            else:
                live.remove(block)


class _Lying:
    """An engine that reports another peak than it saw."""

    name = "lying"

    def __init__(self, engine: Native) -> None:
        self._engine = engine

    def replay(self, *arguments: object, **conditions: object) -> object:
        result = self._engine.replay(*arguments, **conditions)  # type: ignore[arg-type]
        assert result.outcome is Outcome.COMPLETED
        return replace(result, peak_reserved_bytes=7)
