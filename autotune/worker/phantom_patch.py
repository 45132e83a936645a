"""What PyTorch does below its dispatcher, and so has to be told otherwise."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from . import recorder
from .phantom_storage import is_phantom


def install(mode: Any, remark: Callable[[str], None]) -> None:
    """Prepare this process for phantom tensors.

    Args:
        mode: the dispatch mode; every thread that starts from now on enters it.
        remark: told, once each, of what the script does that does not happen.
    """
    torch._C._set_only_lift_cpu_tensors(
        True
    )  # torch.tensor(..., device="cuda") copies through the dispatcher
    torch._C._ensureCUDADeviceGuardSet()
    recorder.record_threads(mode)
    _use_lists_of_tensors()
    warnings.filterwarnings("ignore", message="Accessing the data pointer of FakeTensor")
    torch.nn.Module._apply = _apply  # type: ignore[method-assign]
    FakeTensor.__format__ = _format  # type: ignore[method-assign]
    _recur_without_cudnn()
    _bypass_compiler(remark)
    _write_no_phantoms(remark)


def _use_lists_of_tensors() -> None:
    """Optimizers work on lists of tensors if these are of a type that they know."""
    for name in ("torch.optim.optimizer", "torch.utils._foreach_utils"):
        module: Any = importlib.import_module(name)
        for table in ("_foreach_supported_types",):
            types = getattr(module, table, None)
            if types is not None and FakeTensor not in types:
                types.append(FakeTensor)


def _format(tensor: Any, form: str) -> str:
    return format(tensor.item(), form) if tensor.dim() == 0 else object.__format__(tensor, form)


def _apply(module: Any, fn: Any, recurse: bool = True) -> Any:
    """`Module._apply`, which moves parameters, in words that phantom tensors understand.

    PyTorch's own writes into `param.data` or swaps tensors; neither can turn a real tensor into a phantom.
    Here the parameter object stays and changes what it is, so that optimizers and tied weights go along.
    """
    if recurse:
        for child in module.children():
            child._apply(fn)
    for parameter in module._parameters.values():
        if parameter is None:
            continue
        with torch.no_grad():
            applied = fn(parameter)
            gradient = parameter.grad
            moved = None if gradient is None else fn(gradient)
        become(parameter, applied)
        if moved is not None and moved is not gradient:
            parameter.grad = moved
    for key, buffer in module._buffers.items():
        if buffer is not None:
            module._buffers[key] = fn(buffer)
    return module


def become(parameter: Any, applied: Any) -> None:
    """Give a parameter another tensor's contents, device and type."""
    if applied is parameter:
        return
    if isinstance(applied, FakeTensor) == isinstance(parameter, FakeTensor):
        parameter.data = applied
        return
    parameter.grad = None
    other = torch.nn.Parameter(applied, requires_grad=parameter.requires_grad)
    own = {name: value for name, value in vars(parameter).items() if name not in vars(other)}
    parameter.__class__, other.__class__ = other.__class__, parameter.__class__
    parameter.__dict__, other.__dict__ = other.__dict__, parameter.__dict__
    vars(parameter).update(own)
    torch._C._swap_tensor_impl(parameter, other)


def _recur_without_cudnn() -> None:
    """Recurrent layers: PyTorch asks cuDNN, which needs a GPU, how to lay out weights; leave that out."""
    for mode, name in enumerate(("rnn_relu", "rnn_tanh", "lstm", "gru")):
        setattr(torch._VF, name, _recurrent(mode, getattr(torch._VF, name)))


def _recurrent(mode: int, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(source: Any, *arguments: Any) -> Any:
        if not is_phantom(source):
            return original(source, *arguments)
        packed = isinstance(arguments[2], (list, tuple))
        sizes = arguments[0].tolist() if packed else []
        state, weights, bias, layers, dropout, train, both_ways = arguments[packed : 7 + packed]
        first = False if packed else arguments[7]
        hidden, cell = state if isinstance(state, (list, tuple)) else (state, None)
        output, hidden, cell, *_ = torch._cudnn_rnn(
            source, weights, 4 if bias else 2, None, hidden, cell, mode, hidden.shape[-1], 0, layers,
            first, dropout, train, both_ways, sizes, None,
        )  # fmt: skip
        return (output, hidden, cell) if isinstance(state, (list, tuple)) else (output, hidden)

    return call


def _bypass_compiler(remark: Callable[[str], None]) -> None:
    """`torch.compile` gives back what it gets: compiled code needs a GPU to be made for, and to run on."""
    sentence = "torch.compile is bypassed: operators run one by one, which usually takes more memory."

    def compile_(model: Any = None, **options: Any) -> Any:
        remark(sentence)
        return model if model is not None else lambda function: function

    torch.compile = compile_
    torch.nn.Module.compile = lambda module, *args, **kwargs: remark(sentence)  # type: ignore[method-assign]


def _write_no_phantoms(remark: Callable[[str], None]) -> None:
    """Saving tensors that have no values would put garbage over a good checkpoint, so nothing is written.

    A script that then renames the file it believes to have written renames nothing either. Other files are
    the script's own affair, as in every trial.
    """
    unwritten: set[str] = set()

    def skip(target: Any) -> None:
        remark("The script saves tensors; a phantom GPU has nothing to save, and no such file was written.")
        if isinstance(target, (str, os.PathLike)):
            unwritten.add(os.path.abspath(target))

    torch.save = lambda obj, f, *args, **kwargs: skip(f)

    def unless_unwritten(original: Any) -> Any:
        @functools.wraps(original)
        def call(source: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(source, (str, os.PathLike)) and os.path.abspath(source) in unwritten:
                return None
            return original(source, *args, **kwargs)

        return call

    for name in ("rename", "replace", "remove", "unlink", "chmod"):
        setattr(os, name, unless_unwritten(getattr(os, name)))
    _on_import("safetensors.torch", lambda module: _skip_safetensors(module, skip))


def _skip_safetensors(module: Any, skip: Callable[[Any], None]) -> None:
    module.save_file = lambda tensors, filename, *args, **kwargs: skip(filename)
    module.save_model = lambda model, filename, *args, **kwargs: skip(filename)
    module.save = lambda tensors, *args, **kwargs: b""


class _Importing:
    """A finder that lets others find a module, and changes it once it is loaded."""

    def __init__(self, name: str, change: Callable[[Any], None]) -> None:
        self._name, self._change = name, change

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def load(module: Any) -> None:
                execute(module)
                self._change(module)

            spec.loader.exec_module = load  # type: ignore[method-assign]
        return spec


def _on_import(name: str, change: Callable[[Any], None]) -> None:
    """Change a module now if it is loaded, else as soon as it is."""
    if name in sys.modules:
        change(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Importing(name, change))
