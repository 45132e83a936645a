"""Redirect: lets a script that names "cuda" run on the CPU unchanged, and remembers what it put there.

Tensors are real and on the CPU. Where an operation is told to use a CUDA device, it uses the CPU and its
result is *placed*: counted as being on the GPU, along with everything computed from it. Copies to and from
the GPU are real copies, because on a GPU they take memory. `Tensor.device` says cuda:0 of a placed tensor, so
that code which makes tensors "on the same device" places them too; `Tensor.is_cuda` and
`torch.cuda.is_available()` stay False, so that nothing picks a kernel that only exists for GPUs.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch

from .recorder import Recorder

CUDA = torch.device("cuda", 0)
CPU = torch.device("cpu")


class RedirectingRecorder(Recorder):  # type: ignore[no-untyped-call]
    """A Recorder that turns CUDA devices into the CPU, and places the results."""

    def _run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        placed = self._note_all(args, False) | self._note_all(kwargs.values(), False)
        if _is_cuda(kwargs.get("device")):
            kwargs = {**kwargs, "device": CPU}
            placed = True
        if kwargs.get("pin_memory"):
            kwargs = {**kwargs, "pin_memory": False}
        result = _compute(func, args, kwargs)
        self._note_all((result,), placed)
        if func is _aten._pack_padded_sequence.default:
            self.place(result[1], False)  # batch sizes stay on the CPU, and are checked to be there
        return result


_aten = torch.ops.aten
_PRODUCTS = {
    _aten.mm.default, _aten.addmm.default, _aten.bmm.default, _aten.baddbmm.default, _aten.mv.default,
    _aten.addmv.default, _aten.dot.default, _aten.convolution.default, _aten.convolution_backward.default,
}  # fmt: skip
_NARROW = (torch.bfloat16, torch.float16)


def _compute(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operation; matrix products of 16-bit numbers in 32 bits.

    Most CPUs take sixty times as long for the former. The result has the 16-bit storage that is recorded.
    """
    narrow = next((a.dtype for a in args if isinstance(a, torch.Tensor) and a.dtype in _NARROW), None)
    if narrow is None or func not in _PRODUCTS:
        return func(*args, **kwargs)
    wide = [a.float() if isinstance(a, torch.Tensor) and a.dtype in _NARROW else a for a in args]
    result = func(*wide, **kwargs)
    if isinstance(result, torch.Tensor):
        return result.to(narrow)
    return tuple(r.to(narrow) if isinstance(r, torch.Tensor) else r for r in result)


def _is_cuda(device: Any) -> bool:
    """Whether a device argument, in any form that torch takes, means a GPU."""
    if isinstance(device, torch.device):
        return device.type == "cuda"
    return (isinstance(device, str) and device.startswith("cuda")) or type(device) is int


def install(recorder: RedirectingRecorder, total_bytes: int) -> None:
    """Replace what of torch would ask for a GPU before an operation is dispatched."""
    _redirect_tensor_methods(recorder)
    for name in ("tensor", "as_tensor", "asarray"):
        setattr(torch, name, _redirected_constructor(getattr(torch, name), recorder))
    _redirect_autocast()
    _redirect_loading()
    torch.Generator = _Generator  # type: ignore[misc]
    for name, stub in _cuda_stubs(total_bytes).items():
        setattr(torch.cuda, name, stub)


def _redirect_tensor_methods(recorder: RedirectingRecorder) -> None:
    tensor: Any = torch.Tensor
    original_to, original_device = tensor.to, tensor.device

    def move(self: Any, target: Any, arguments: dict[str, Any]) -> Any:
        """`self.to(target)`, a real copy when that crosses between the CPU and the pretended GPU."""
        onto = _is_cuda(target)
        if onto == recorder.is_placed(self):
            return original_to(self, **arguments)
        result = original_to(self, **{**arguments, "copy": True})
        recorder.place(result, onto)
        return result

    @functools.wraps(original_to)
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        target, arguments = _parse_to(args, kwargs)
        if target is None:
            return original_to(self, **arguments)
        if not _is_cuda(target) and torch.device(target).type != "cpu":  # meta, mps
            return original_to(self, target, **arguments)
        return move(self, target, arguments)

    def device(self: Any) -> Any:
        return CUDA if recorder.is_placed(self) else original_device.__get__(self)

    tensor.to = to
    tensor.cuda = lambda self, *args, **kwargs: move(self, CUDA, {})
    tensor.cpu = lambda self, *args, **kwargs: move(self, CPU, {})
    tensor.device = property(device)
    tensor.pin_memory = lambda self, *args, **kwargs: self
    tensor.record_stream = lambda self, stream: None
    tensor.new_tensor = _redirected_constructor(tensor.new_tensor, recorder)


def _parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The target device of a `Tensor.to` call, if any, and its other arguments by name."""
    arguments = dict(kwargs)
    target = arguments.pop("device", None)
    other = arguments.pop("other", None)
    names = ["dtype", "non_blocking", "copy"]
    rest = list(args)
    if rest and isinstance(rest[0], torch.Tensor):
        other = rest.pop(0)
    elif rest and (rest[0] is None or isinstance(rest[0], (str, int, torch.device))):
        target = rest.pop(0)
    if other is not None:
        target = other.device
        arguments["dtype"] = other.dtype
        names.remove("dtype")
    arguments.update(zip(names, rest))  # noqa: B905 — strict needs Python 3.10
    return target, arguments


def _redirected_constructor(
    original: Callable[..., Any], recorder: RedirectingRecorder
) -> Callable[..., Any]:
    """`torch.tensor` and its like: they copy to the device below the dispatcher, so redirect here."""

    @functools.wraps(original)
    def construct(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is None and torch._C._len_torch_function_stack():
            device = torch.empty(0).device  # `with torch.device("cuda"):` is known to such modes only
        if not _is_cuda(device):
            return original(*args, **kwargs)
        result = original(*args, **{**kwargs, "device": CPU})
        if result is args[0]:
            return result.to(CUDA)
        recorder.place(result)
        return result

    return construct


def _redirect_autocast() -> None:
    """`autocast("cuda")` becomes the CPU's, in bfloat16: as wide as float16, and every CPU kernel has it."""
    autocast: Any = torch.amp.autocast_mode.autocast
    original = autocast.__init__

    @functools.wraps(original)
    def init(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        if device_type == "cuda":
            device_type = "cpu"
            dtype = torch.bfloat16 if dtype in (None, torch.float16) else dtype
        original(self, device_type, dtype, *args, **kwargs)

    autocast.__init__ = init


def _redirect_loading() -> None:
    original = torch.load

    @functools.wraps(original)
    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        return original(
            f, CPU if map_location is None or _is_cuda(map_location) else map_location, *args, **kwargs
        )

    torch.load = load


class _Generator(torch._C.Generator):
    """A generator asked for on a GPU is one of the CPU."""

    def __new__(cls, device: Any = "cpu") -> Any:
        return super().__new__(cls, device=CPU)  # type: ignore[call-arg]

    def __init__(self, device: Any = "cpu") -> None:
        super().__init__()


class _Stream:
    """A stream or event of a GPU that is not there: everything is done already."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.device = CUDA
        self.cuda_stream = 0

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *args: Any) -> None:
        pass

    def _nothing(self, *args: Any, **kwargs: Any) -> None:
        pass

    wait_stream = wait_event = synchronize = record = wait = _nothing

    def record_event(self, event: _Stream | None = None) -> _Stream:
        return event or _Stream()

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: _Stream) -> float:
        return 0.0


class _Properties:
    """Properties of the pretended GPU."""

    name = "GPU (estimate)"
    major, minor = 8, 0
    multi_processor_count = 108
    warp_size = 32

    def __init__(self, total_memory: int) -> None:
        self.total_memory = total_memory


def _cuda_stubs(total_bytes: int) -> dict[str, Any]:
    """Functions of `torch.cuda` that need a GPU, answering as an idle one would."""

    def always(value: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: value

    names: dict[str, Any] = {
        **dict.fromkeys((
            "_lazy_init", "init", "synchronize", "set_device", "empty_cache", "ipc_collect", "seed",
            "seed_all", "manual_seed", "manual_seed_all", "set_rng_state", "set_rng_state_all",
            "set_per_process_memory_fraction", "reset_peak_memory_stats", "reset_accumulated_memory_stats",
            "reset_max_memory_allocated", "reset_max_memory_cached",
        )),
        **dict.fromkeys((
            "current_device", "initial_seed", "utilization", "memory_allocated", "max_memory_allocated",
            "memory_reserved", "max_memory_reserved",
        ), 0),
        "is_bf16_supported": True, "memory_summary": "", "memory_stats": {},
        "get_device_name": _Properties.name, "get_device_capability": (_Properties.major, _Properties.minor),
        "get_device_properties": _Properties(total_bytes), "mem_get_info": (total_bytes, total_bytes),
        "get_arch_list": [], "is_current_stream_capturing": False,
    }  # fmt: skip
    nothing = contextlib.nullcontext
    return {
        **{name: always(value) for name, value in names.items()},
        "Stream": _Stream, "Event": _Stream, "ExternalStream": _Stream,
        "current_stream": _Stream, "default_stream": _Stream,
        **dict.fromkeys(("stream", "device", "device_of"), lambda target: nothing()),
        "get_rng_state": lambda *args, **kwargs: torch.get_rng_state(),
        "get_rng_state_all": lambda: [torch.get_rng_state()],
    }  # fmt: skip


def quiet_about_cuda() -> None:
    """Torch warns about every disabled GPU feature; in an estimate that is expected."""
    warnings.filterwarnings("ignore", message=".*CUDA is not available.*")
