"""Shapes: the results of an operation on phantom tensors, found by PyTorch's FakeTensorMode and remembered.

FakeTensorMode takes a quarter of a millisecond for an operation that it has not seen and not much less for
one that it has; a training step has thousands, and most repeat. So what came out is kept as a recipe: new
tensors by shape, stride and type, views by their place in an argument's storage.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from .phantom_storage import is_phantom

CUDA = torch.device("cuda", 0)
MAX_RECIPES = 200_000


class _New(NamedTuple):
    """A tensor with a storage of its own, which may be larger than the tensor."""

    shape: Any
    stride: Any
    dtype: torch.dtype


class _View(NamedTuple):
    """A tensor in the storage of the first argument, `offset` elements after that one's beginning."""

    shape: Any
    stride: Any
    dtype: torch.dtype
    offset: int


class _Same(NamedTuple):
    """The first argument itself."""


class _Plain(NamedTuple):
    """Not a tensor."""

    value: Any


class _NotRemembered(Exception):
    """A result that no recipe can make again."""


class Shapes:
    """Makes the results of operations."""

    def __init__(self) -> None:
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        template = FakeTensor(self.mode, torch.empty(0, device="meta"), CUDA)
        self._attributes = dict(vars(template))
        self._recipes: dict[Any, Any] = {}

    def run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """The results of an operation, as phantom tensors.

        Raises:
            Exception: whatever FakeTensorMode raises, such as DynamicOutputShapeException.
        """
        try:
            key = (
                func,
                torch.get_default_dtype(),
                _key(args),
                tuple((n, _key(v)) for n, v in kwargs.items()),
            )
            recipe = self._recipes.get(key)
        except (TypeError, RuntimeError, NotImplementedError):  # not hashable, sparse
            return self._find(func, args, kwargs)
        if recipe is not None:
            return self._make(recipe, args)
        result = self._find(func, args, kwargs)
        try:
            recipe = _recipe(result, args)
        except (_NotRemembered, RuntimeError, NotImplementedError):
            return result
        if len(self._recipes) < MAX_RECIPES:
            self._recipes[key] = recipe
        return result

    def new(self, shape: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
        """A new phantom tensor."""
        return self.phantom(torch.empty_strided(shape, stride, dtype=dtype, device="meta"))

    def phantom(self, meta: torch.Tensor) -> torch.Tensor:
        """The phantom tensor of a meta tensor, with its storage."""
        made: torch.Tensor = torch.Tensor._make_subclass(
            FakeTensor, meta, False, dispatch_device=True, device_for_backend_keys=CUDA
        )
        vars(made).update(self._attributes)
        return made

    def _find(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        return self.mode.dispatch(func, (), args, kwargs)

    def _make(self, recipe: Any, args: Any) -> Any:
        if type(recipe) is _New:
            return self.new(recipe.shape, recipe.stride, recipe.dtype)
        if type(recipe) is _View:
            base = args[0]
            meta = torch.empty(0, dtype=recipe.dtype, device="meta")
            place = base.storage_offset() + recipe.offset
            return self.phantom(meta.set_(base.untyped_storage(), place, recipe.shape, recipe.stride))
        if type(recipe) is _Same:
            return args[0]
        if type(recipe) is _Plain:
            return recipe.value
        return type(recipe)(self._make(one, args) for one in recipe)


def _key(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if value.is_complex() or type(value) not in (torch.Tensor, torch.nn.Parameter, FakeTensor):
            raise TypeError("not remembered")
        return value.dtype, value.shape, value.stride(), is_phantom(value)
    if isinstance(value, (list, tuple)):
        return tuple([_key(one) for one in value])
    if isinstance(value, torch.Generator):
        return torch.Generator
    return type(value), value


def _recipe(result: Any, args: Any) -> Any:
    if isinstance(result, FakeTensor):
        return _recipe_of_tensor(result, args)
    if isinstance(result, torch.Tensor):
        raise _NotRemembered
    if type(result) in (list, tuple):
        return type(result)(_recipe(one, args) for one in result)
    if result is None or isinstance(result, (bool, int, float, torch.dtype)):
        return _Plain(result)
    raise _NotRemembered


def _recipe_of_tensor(result: torch.Tensor, args: Any) -> Any:
    first = args[0] if args else None
    if result is first:
        return _Same()
    if result.is_complex() or not is_phantom(result) or result.layout != torch.strided:
        raise _NotRemembered
    form = (tuple(result.shape), result.stride(), result.dtype)
    storage = result.untyped_storage()
    if isinstance(first, FakeTensor) and storage._cdata == first.untyped_storage()._cdata:
        if first.dtype != result.dtype:
            raise _NotRemembered  # offsets are in elements
        return _View(*form, int(result.storage_offset() - first.storage_offset()))
    for argument in args[1:]:
        for one in argument if isinstance(argument, (list, tuple)) else (argument,):
            if isinstance(one, FakeTensor) and one.untyped_storage()._cdata == storage._cdata:
                raise _NotRemembered
    whole = (
        torch.empty_strided(form[0], form[1], dtype=result.dtype, device="meta").untyped_storage().nbytes()
    )
    if result.storage_offset() or whole != storage.nbytes():
        raise _NotRemembered
    return _New(*form)
