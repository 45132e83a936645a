"""Values of phantom tensors, where they are known: what came from the CPU, and what was computed from that
alone.

A phantom tensor has no data, so whatever depends on its values (the number of `True`s in a mask, a length
read with `.item()`) would be unknown. But masks, lengths, indices and labels are small and come from the
script's data, not from the model. For those a real storage on the CPU follows the phantom one, with the
same layout, and operations whose inputs are all known are also done there. Random numbers are drawn from a
generator of their own, so that the script's own CPU numbers stay what they would be.
"""

from __future__ import annotations

from typing import Any

import torch

from .phantom_storage import Storages, is_phantom

aten = torch.ops.aten

LARGEST_INTEGERS, LARGEST_FLOATS = 1 << 22, 1 << 16
"""Elements up to which values are followed; floating-point ones decide shapes only in masks of a batch."""

OVERWRITES = {aten.copy_.default, aten.fill_.Scalar, aten.fill_.Tensor, aten.zero_.default}
"""What leaves no old element in the tensor that it writes."""
FINE = {
    aten.isnan.default: False, aten.isinf.default: False, aten.any.default: False, aten.any.dim: False,
    aten.all.default: True, aten.all.dim: True,
}  # fmt: skip
"""What such a question is taken to answer where it is not known: that nothing is wrong."""
NOT_FINITE = (float("inf"), float("-inf"))


class Values:
    """Follows values beside the phantom storages."""

    def __init__(self, storages: Storages) -> None:
        self._storages = storages
        self._random: torch.Tensor | None = None
        self.assumed = False
        """Whether an answer of FINE was used."""

    def of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The values of a tensor, phantom or not; None where they are not known."""
        if not is_phantom(tensor):
            return tensor
        value = self._storages.of(tensor).value
        if value is None:
            return None
        return torch.empty(0, dtype=tensor.dtype).set_(
            value, tensor.storage_offset(), tensor.shape, tensor.stride()
        )

    def set(self, tensor: torch.Tensor, values: torch.Tensor) -> None:
        """Say what the values of a phantom tensor are that fills its storage."""
        entry = self._storages.of(tensor)
        entry.value = _blank(entry.size)
        found = self.of(tensor)
        assert found is not None
        found.copy_(values)

    def follow(self, func: Any, args: Any, kwargs: dict[str, Any], result: Any) -> None:
        """Do an operation on the values as well, or forget those that it writes."""
        if func is aten._amp_foreach_non_finite_check_and_unscale_.default:
            return  # what it would find is taken to be finite, as GradScaler said before
        outputs = [result] if isinstance(result, torch.Tensor) else result
        if not isinstance(outputs, (list, tuple)):
            return
        inputs = self.inputs(func, args)
        if inputs is not None and all(is_small(one) for one in outputs if isinstance(one, torch.Tensor)):
            try:
                found = self.compute(func, inputs, kwargs)
                self._keep(outputs, [found] if isinstance(found, torch.Tensor) else found)
            except Exception:  # no such kernel on the CPU: then it is not known
                self._forget(func, args, kwargs)
            return
        self._forget(func, args, kwargs)
        if inputs is None:
            self._assume(func, args, result)

    def compute(self, func: Any, inputs: Any, kwargs: dict[str, Any]) -> Any:
        """An operation done on the CPU."""
        kwargs = {name: value for name, value in kwargs.items() if name not in ("generator", "pin_memory")}
        if kwargs.get("device") is not None:
            kwargs["device"] = torch.device("cpu")
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*inputs, **kwargs)
        before = torch.get_rng_state()
        if self._random is not None:
            torch.set_rng_state(self._random)
        try:
            return func(*inputs, **kwargs)
        finally:
            self._random = torch.get_rng_state()
            torch.set_rng_state(before)

    def inputs(self, func: Any, args: Any) -> list[Any] | None:
        """The arguments with values in place of phantoms; None if some are not known."""
        found: list[Any] = []
        for position, argument in enumerate(args):
            if isinstance(argument, torch.Tensor):
                value = self.of(argument)
                if value is None and position == 0 and func in OVERWRITES and self._fills(argument):
                    value = argument
                if value is None:
                    return None
                found.append(value)
            elif isinstance(argument, (list, tuple)):
                values = self.inputs(None, argument)
                if values is None:
                    return None
                found.append(values)
            else:
                found.append(argument)
        if found and found[0] is args[0] and is_phantom(args[0]):
            entry = self._storages.of(args[0])
            entry.value = _blank(entry.size)
            found[0] = self.of(args[0])
        return found

    def _fills(self, tensor: torch.Tensor) -> bool:
        return is_small(tensor) and tensor.numel() * tensor.itemsize == self._storages.of(tensor).size

    def _keep(self, outputs: Any, found: Any) -> None:
        for output, values in zip(outputs, found):  # noqa: B905 — strict needs Python 3.10
            if is_phantom(output) and self._storages.of(output).value is None:
                self.set(output, values)

    def _forget(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        for position, name in _written(func):
            written = args[position] if position < len(args) else kwargs.get(name)
            for tensor in written if isinstance(written, (list, tuple)) else (written,):
                if is_phantom(tensor):
                    self._storages.of(tensor).value = None

    def _assume(self, func: Any, args: Any, result: Any) -> None:
        answer = FINE.get(func)
        # torch.isfinite is (x == x) * (x.abs() != inf), torch.isnan may be x != x.
        if func in (aten.eq.Tensor, aten.ne.Tensor) and args[0] is args[1]:
            answer = func is aten.eq.Tensor
        elif func in (aten.eq.Scalar, aten.ne.Scalar) and args[1] in NOT_FINITE:
            answer = func is aten.ne.Scalar
        if answer is not None and is_small(result):
            self.assumed = True
            self.set(result, torch.tensor(answer))


def _blank(size: int) -> Any:
    return torch.UntypedStorage(size)  # type: ignore[no-untyped-call]


_WRITTEN: dict[Any, list[tuple[int, str]]] = {}


def _written(func: Any) -> list[tuple[int, str]]:
    """Position and name of the arguments that an operation writes."""
    found = _WRITTEN.get(func)
    if found is None:
        found = _WRITTEN[func] = [
            (position, argument.name)
            for position, argument in enumerate(func._schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
    return found


def is_small(tensor: torch.Tensor) -> bool:
    """Whether the values of a tensor are worth following."""
    return tensor.numel() <= (LARGEST_FLOATS if tensor.is_floating_point() else LARGEST_INTEGERS)
