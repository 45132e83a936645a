"""The CPU's side of the phantom device: which tensors stay blank, and which are real."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from autotune.worker.phantom_host import Host  # noqa: E402

LARGE, SMALL = (1024, 1024), (8, 8)


@pytest.fixture(autouse=True)
def host() -> Iterator[Host]:
    found = Host()

    class Mode(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return found.run(func, args, kwargs or {})

    with Mode():
        yield found


def test_a_large_parameter_is_not_filled_and_a_small_one_is() -> None:
    assert torch.nn.Linear(*LARGE).weight.abs().sum().item() == 0
    assert torch.nn.Linear(*SMALL).weight.abs().sum().item() > 0


def test_copies_of_a_blank_tensor_are_blank_in_their_own_type() -> None:
    narrow = torch.empty(LARGE).to(torch.bfloat16).normal_()
    assert narrow.dtype is torch.bfloat16 and narrow.shape == LARGE and narrow.float().sum().item() == 0


def test_data_that_is_copied_in_is_kept_and_later_operations_are_real() -> None:
    tensor = torch.empty(LARGE)
    tensor.copy_(torch.ones(LARGE))
    assert tensor.mul_(2).sum().item() == 2 * 1024 * 1024


def test_what_the_script_makes_of_numbers_is_real_however_large() -> None:
    assert torch.ones(LARGE).sum().item() == 1024 * 1024
    assert torch.randn(LARGE).std().item() == pytest.approx(1, abs=0.01)
    assert torch.empty(LARGE, dtype=torch.int64).fill_(3).sum().item() == 3 * 1024 * 1024


def test_pinned_memory_is_plain_memory_that_says_it_is_pinned(host: Host) -> None:
    assert torch.zeros(4, pin_memory=True).is_pinned() and not torch.zeros(4).is_pinned()
    assert torch.zeros(4).pin_memory().is_pinned()


def test_what_stands_for_unknown_values_is_ones() -> None:
    host = Host()
    assert host.stand_in((3, 2), torch.int64).tolist() == [[1, 1]] * 3
    assert host.stand_in((0,), torch.float32).shape == (0,)
