"""The dispatch mode behind the phantom device: CUDA tensors are fake, CPU tensors are real.

Every operation comes by here. One that touches no CUDA tensor really runs. One that does runs under
PyTorch's own FakeTensorMode, which finds the outputs' shapes without computing; their storages are then
asked of the allocator (`phantom_storage`), what operators and libraries take besides is asked for too
(`phantom_workspace`), and small values that the script's data determines are followed (`phantom_values`).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from .phantom_host import Host
from .phantom_shapes import Shapes
from .phantom_storage import Storages, is_phantom
from .phantom_values import Values, is_small
from .phantom_workspace import Workspaces, convolution_backward_bytes, recurrent_reserve_bytes

aten = torch.ops.aten
CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
KINDS = (torch.Tensor, torch.nn.Parameter, FakeTensor)


class UnknownShape(Exception):
    """An operation's shape depends on values that nobody computed."""


class PhantomMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs every operation, on the CPU or as if on the GPU.

    Args:
        storages: asked for the memory of every CUDA storage.
        workspaces: asked for the memory that operators take for themselves.
        selected: share of True elements that a mask is taken to have where it is not known; None = stop.
        stand_in: told of a value that the script read although nobody computed it.
        stop: told of the operation that cannot go on, and why; does not return.
    """

    def __init__(
        self,
        storages: Storages,
        workspaces: Workspaces,
        *,
        selected: float | None,
        stand_in: Callable[[str], None],
        stop: Callable[[str, str], None],
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.storages, self.workspaces = storages, workspaces
        self.values = Values(storages)
        self.host = Host()
        self.shapes = Shapes()
        self._selected, self._stand_in, self._stop = selected, stand_in, stop
        self.guessed_shapes: set[str] = set()
        self.streams_recorded = False
        self._special: dict[Any, Callable[..., Any]] = {
            aten._to_copy.default: self._to_copy,
            aten.copy_.default: self._copy,
            aten._local_scalar_dense.default: self._read,
            aten.equal.default: self._equal,
            aten.record_stream.default: self._record_stream,
            aten.index.Tensor: self._index,
            aten.index_put_.default: self._index,
            aten.index_put.default: self._index,
            aten._index_put_impl_.default: self._index,
            aten.nonzero.default: self._nonzero,
            aten.masked_select.default: self._masked_select,
            aten._pack_padded_sequence.default: self._pack,
            aten._cudnn_rnn.default: self._recurrent,
            aten._cudnn_rnn_backward.default: self._recurrent_backward,
        }

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # Dynamo is off, and the wrapper that this would bring costs a microsecond an operation

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operation."""
        if func is torch.ops.prim.device.default:  # asked more often than anything else
            return args[0].fake_device if isinstance(args[0], FakeTensor) else func(*args)
        kwargs = kwargs or {}
        if not self.storages.enabled:
            return func(*args, **kwargs)
        if any(kind not in KINDS for kind in types):
            return NotImplemented  # a subclass made of other tensors; its own operations come by later
        if FakeTensor not in types and not _names_cuda(kwargs.get("device")):
            return self.host.run(func, args, kwargs)
        self.storages.operator = func._schema.name
        if func is aten.add.Tensor and sys._getframe().f_back is None and _accumulates(args, kwargs):
            self.values.follow(aten.add_.Tensor, args, kwargs, args[0])
            return args[0]
        special = self._special.get(func)
        if special is not None:
            return special(func, args, kwargs)
        return self._run(func, args, kwargs)

    def _run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        writes = _WRITES.get(func)
        if writes is None:
            writes = _WRITES[func] = _only_writes(func)
        result = _result_of_writing(func, args) if writes else self._phantom(func, args, kwargs)
        if func is aten.convolution_backward.default:
            for gradient, sizes in zip(result, (*convolution_backward_bytes(args), [])):  # noqa: B905
                self._note(gradient)
                self.storages.transient(*sizes)
        else:
            self.workspaces.take(func, args, self._note(result))
        self.values.follow(func, args, kwargs, result if result is not None else ())
        return self._real_where_cpu(result)

    def _phantom(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        try:
            return self.shapes.run(func, args, kwargs)
        except Exception as error:
            if type(error).__name__ in ("DynamicOutputShapeException", "DataDependentOutputException"):
                return self._from_values(func, args, kwargs)
            if type(error).__name__ == "UnsupportedOperatorException":
                self._stop(str(func), "PyTorch does not know the shapes that it makes")
            raise

    def _from_values(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """The outputs of an operation whose shapes depend on values."""
        inputs = self.values.inputs(func, args)
        if inputs is None and str(func._schema.returns[0].type) == "bool":
            self._stand_in("an answer of yes or no")
            return True
        if inputs is None:
            self._stop(str(func), "the shape of its result depends on numbers that only a GPU would compute")
        found = self.values.compute(func, inputs, kwargs)
        if isinstance(found, (bool, int, float)):
            return found
        self.guessed_shapes.add(str(func))
        if not isinstance(found, torch.Tensor):
            return tuple(self._from_cpu(one) if isinstance(one, torch.Tensor) else one for one in found)
        return self._from_cpu(found)

    def _from_cpu(self, values: torch.Tensor) -> torch.Tensor:
        phantom = self.shapes.new(values.shape, values.stride(), values.dtype)
        self.values.set(phantom, values)
        return phantom

    def _note(self, result: Any) -> list[torch.Tensor]:
        """Ask for the storages of phantom results."""
        if isinstance(result, FakeTensor):
            if is_phantom(result):
                self.storages.of(result)
            return [result]
        found: list[torch.Tensor] = []
        if isinstance(result, (list, tuple)):
            for one in result:
                found += self._note(one)
        return found

    def _real_where_cpu(self, result: Any) -> Any:
        """The result, with real tensors for what an operation leaves on the CPU."""
        if isinstance(result, FakeTensor) and not is_phantom(result):
            return torch.ones(result.shape, dtype=result.dtype)
        if isinstance(result, (list, tuple)) and any(
            isinstance(one, FakeTensor) and not is_phantom(one) for one in result
        ):
            return tuple(self._real_where_cpu(one) for one in result)
        return result

    # ---- between the CPU and the GPU ----

    def _to_copy(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        source, target = args[0], kwargs.get("device")
        onto = is_phantom(source) if target is None else _names_cuda(target)
        if is_phantom(source) and onto:
            return self._run(func, args, kwargs)
        if is_phantom(source) and target is not None and torch.device(target).type == "cpu":
            return self._off(source, kwargs)
        if not onto:
            return self._run(func, args, kwargs)
        form = {name: kwargs[name] for name in ("dtype", "memory_format") if kwargs.get(name) is not None}
        meta = torch.empty_like(source, device="meta", **form)
        if source.is_cpu and meta.dtype != source.dtype:
            # The GPU is given the bytes as they are, and converts them.
            self.storages.transient(source.numel() * source.itemsize)
        result = self.shapes.phantom(meta)
        self.storages.of(result)
        if source.is_cpu:
            self._learn(result, source)
        return result

    def _learn(self, phantom: torch.Tensor, source: torch.Tensor) -> None:
        if is_small(source) and source.layout == torch.strided:
            self.values.set(phantom, source)

    def _off(self, source: torch.Tensor, kwargs: dict[str, Any]) -> torch.Tensor:
        """A copy on the CPU: of the values where they are known, else of something to stand for them."""
        dtype = kwargs.get("dtype") or source.dtype
        values = self.values.of(source)
        if values is not None:
            return values.to(dtype, copy=True)
        self._stand_in("a copy on the CPU")
        return self.host.stand_in(source.shape, dtype)

    def _copy(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        target, source = args[:2]
        if is_phantom(target):
            self.storages.of(target)
            if source.dtype != target.dtype and source.is_cpu:
                self.storages.transient(source.numel() * source.itemsize)
            self.values.follow(func, args, kwargs, target)
            return target
        values = self.values.of(source)
        if values is None:
            self._stand_in("a copy on the CPU")
            values = self.host.stand_in(source.shape, source.dtype)
        return target.copy_(values)

    def _read(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        values = self.values.of(args[0])
        if values is not None:
            return values.item()
        self._stand_in("a number")
        dtype = args[0].dtype
        return False if dtype is torch.bool else 1.0 if dtype.is_floating_point else 1

    def _equal(self, func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
        values = [self.values.of(tensor) for tensor in args[:2]]
        if values[0] is not None and values[1] is not None:
            return bool(torch.equal(values[0], values[1]))
        self._stand_in("whether two tensors are equal")
        return bool(args[0].shape == args[1].shape)

    def _record_stream(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        self.streams_recorded = True

    # ---- shapes that depend on values ----

    def _nonzero(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        mask = args[0]
        count = self._count(func, mask)
        result = self._known(self.values.of(mask), lambda values: values.nonzero())
        if result is None:
            result = self.shapes.new((count, mask.dim()), (1, max(count, 1)), torch.int64)
        self.storages.of(result)
        self.workspaces.take(func, args, [result])
        return result

    def _masked_select(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        source, mask = args[:2]
        count = self._count(func, mask)
        if mask.shape != source.shape:
            count = count * (_broadcast(mask, source) // max(mask.numel(), 1))
        result = self.shapes.new((count,), (1,), source.dtype)
        self.storages.of(result)
        return result

    def _index(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Indexing; a mask is what `nonzero` finds of it, as in PyTorch's own kernels."""
        indices: list[Any] = []
        for index in args[1]:
            if index is None or index.dtype not in (torch.bool, torch.uint8):
                indices.append(index)
                continue
            count = self._count(func, index)
            found = self.shapes.new((count, index.dim()), (1, max(count, 1)), torch.int64)
            self.storages.of(found)
            values = self.values.of(index)
            if values is not None:
                self.values.set(found, values.nonzero())
            indices += found.unbind(1)
        return self._run(func, (args[0], indices, *args[2:]), kwargs)

    def _pack(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """A packed sequence; the lengths, and the batch sizes made of them, are on the CPU."""
        source, lengths, batch_first = args
        narrow = torch.empty((*source.shape[:2], 1))
        packed, sizes = torch._VF._pack_padded_sequence(narrow, lengths, batch_first)
        shape = (len(packed), *source.shape[2:])
        result = self.shapes.new(shape, torch.empty(shape, device="meta").stride(), source.dtype)
        self.storages.of(result)
        return result, sizes

    def _recurrent(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Recurrent layers of cuDNN; what they keep for the gradient is opaque, and has no size in a fake."""
        output, hidden, cell, *_ = self._phantom(func, args, kwargs)
        count = sum(weight.numel() for weight in args[1])
        weights = self.shapes.new((count,), (1,), args[0].dtype)  # in one piece, as cuDNN wants them
        reserve = self.shapes.new((recurrent_reserve_bytes(args),), (1,), torch.uint8)
        self._note((hidden, cell, output, reserve, weights))
        self.workspaces.take(func, args, [output])
        return output, hidden, cell, reserve, weights

    def _recurrent_backward(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        source, weights, _, _, hidden, cell = args[:6]
        self.workspaces.take(func, (source, weights, None, None, hidden, cell, *args[10:]), [source])
        found = [None if one is None else self._like(one) for one in (source, hidden, cell)]
        return (*found, [self._like(weight) for weight in weights])

    def _like(self, tensor: torch.Tensor) -> torch.Tensor:
        made = self.shapes.new(tensor.shape, tensor.stride(), tensor.dtype)
        self.storages.of(made)
        return made

    def _known(self, values: torch.Tensor | None, what: Callable[[torch.Tensor], torch.Tensor]) -> Any:
        return None if values is None else self._from_cpu(what(values))

    def _count(self, func: Any, mask: torch.Tensor) -> int:
        """How many elements of a mask are True."""
        values = self.values.of(mask)
        if values is not None:
            self.guessed_shapes.add(str(func))
            return int(torch.count_nonzero(values))
        if self._selected is None:
            self._stop(str(func), "the shape of its result depends on a mask that only a GPU would compute")
            raise UnknownShape(str(func))
        self.guessed_shapes.add(f"{func} (a share of {self._selected:g} was asked for)")
        return math.ceil(self._selected * mask.numel())


def _broadcast(mask: torch.Tensor, source: torch.Tensor) -> int:
    """Elements of two shapes broadcast together."""
    shape = torch.broadcast_shapes(mask.shape, source.shape)  # type: ignore[no-untyped-call]
    return math.prod(shape)


SOLE_TENSOR, SOLE_STORAGE = 4, 2
"""Reference counts, as seen from a dispatch mode, of a tensor that only autograd's input buffer holds."""


def _accumulates(args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether autograd adds up two gradients, and would write the sum into the first (input_buffer.cpp).

    It does so with a tensor that nobody else holds, but never with a fake one. An operation that comes
    straight from its engine has no Python frame below.
    """
    old, new = args[:2]
    return (
        not kwargs
        and not torch.is_grad_enabled()
        and is_phantom(old)
        and is_phantom(new)
        and old.shape == new.shape
        and old.dtype == new.dtype
        and old._use_count() <= SOLE_TENSOR
        and torch._C._storage_Use_Count(old.untyped_storage()._cdata) <= SOLE_STORAGE
        and torch._prims_common.is_non_overlapping_and_dense_or_false(old)
    )


def _names_cuda(device: Any) -> bool:
    """Whether a device argument, in any form that torch takes, means a GPU."""
    if isinstance(device, torch.device):
        return device.type == "cuda"
    return (isinstance(device, str) and device.startswith("cuda")) or type(device) is int


_WRITES: dict[Any, bool] = {}
_RESHAPES = {"resize_", "resize_as_", "set_", "_resize_output_", "as_strided_"}


def _only_writes(func: Any) -> bool:
    """Whether an operation writes into its first argument and makes nothing, as `add_` and optimizers' do."""
    schema = func._schema
    first = schema.arguments[0] if schema.arguments else None
    written = first is not None and first.alias_info is not None and first.alias_info.is_write
    name = schema.name.split("::")[-1]
    if not written or torch.Tag.inplace_view in func.tags or name in _RESHAPES:
        return False
    return not schema.returns or (len(schema.returns) == 1 and schema.returns[0].alias_info is not None)


def _result_of_writing(func: Any, args: Any) -> Any:
    return args[0] if func._schema.returns else None
