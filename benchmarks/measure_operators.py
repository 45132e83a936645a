"""What operators take for themselves on a real GPU, which the phantom GPU's rules are made from.

    python benchmarks/measure_operators.py > operators.json          needs a CUDA GPU and torch alone

Each case is run once to warm up and once under PyTorch's allocation history. Blocks that are gone when the
operator returns are its own: `temporary_bytes`, in the order in which they were asked for; `kept_bytes` are
its results. The rules are in `autotune/worker/phantom_{convolution,reduction,workspace}.py`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

aten = torch.ops.aten
FLOAT, NARROW = torch.float32, torch.bfloat16
ROWS: list[dict[str, Any]] = []
CONVOLUTIONS = (  # channels, pixels a side, outputs, kernel, stride, groups
    (3, 224, 64, 7, 2, 1), (64, 56, 64, 3, 1, 1), (64, 56, 256, 1, 1, 1), (256, 56, 128, 1, 1, 1),
    (128, 56, 128, 3, 2, 1), (128, 28, 128, 3, 1, 1), (512, 28, 256, 1, 1, 1), (256, 14, 256, 3, 1, 1),
    (512, 7, 512, 3, 1, 1), (2048, 7, 512, 1, 1, 1), (1024, 14, 2048, 1, 2, 1), (96, 56, 96, 7, 1, 96),
    (4, 64, 320, 3, 1, 1), (320, 64, 320, 3, 1, 1), (64, 32, 128, 4, 2, 1), (256, 8, 512, 4, 2, 1),
)  # fmt: skip
ATTENTION = ((4, 16, 300, 64, 16), (2, 32, 2048, 128, 32), (2, 8, 1000, 80, 8), (4, 32, 512, 128, 8))
"""Batch, heads, length, width, heads of keys and values."""


def watch(operator: str, case: dict[str, Any], call: Callable[[], Any]) -> None:
    """Run a case twice; note what the second run asks for and what of that it gives back."""
    call()
    torch.cuda.synchronize()
    torch.cuda.memory._record_memory_history(max_entries=100_000, context=None)
    result = call()
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    asked: list[tuple[int, bool]] = []
    live: dict[int, int] = {}
    for event in events:
        if event["action"] == "alloc":
            live[event["addr"]] = len(asked)
            asked.append((event["size"], True))
        elif event["action"] == "free_completed" and event["addr"] in live:
            position = live.pop(event["addr"])
            asked[position] = (asked[position][0], False)
    del result
    temporary = [size for size, kept in asked if not kept]
    ROWS.append({
        "operator": operator, **case, "temporary_bytes": temporary,
        "kept_bytes": [size for size, kept in asked if kept],
    })  # fmt: skip


def backward(operator: str, case: dict[str, Any], result: Tensor, inputs: list[Tensor]) -> None:
    """Watch the gradient of a result."""
    gradient = torch.randn_like(result)
    watch(operator, case, lambda: torch.autograd.grad(result, inputs, gradient, retain_graph=True))


def random(*shape: int, dtype: torch.dtype = FLOAT, last: bool = False) -> Tensor:
    """Numbers on the GPU, channels last if asked for."""
    tensor = torch.randn(*shape, device="cuda", dtype=dtype)
    return tensor.to(memory_format=torch.channels_last) if last else tensor


def convolutions() -> None:
    """Convolutions and both their gradients."""
    for dtype, last, batch in itertools.product((FLOAT, NARROW), (False, True), (8, 32, 96)):
        for channels, side, outputs, kernel, stride, groups in CONVOLUTIONS:
            case = {
                "dtype": str(dtype), "channels_last": last, "batch": batch, "channels": channels,
                "side": side, "outputs": outputs, "kernel": kernel, "stride": stride, "groups": groups,
            }  # fmt: skip
            image = random(batch, channels, side, side, dtype=dtype, last=last)
            weight = random(outputs, channels // groups, kernel, kernel, dtype=dtype, last=last)
            form = ([stride] * 2, [(kernel - 1) // 2] * 2, [1, 1], False, [0, 0], groups)
            watch("convolution", case, lambda i=image, w=weight, f=form: aten.convolution(i, w, None, *f))
            gradient = torch.randn_like(aten.convolution(image, weight, None, *form))
            for name, mask in (("input", [True, False, False]), ("weight", [False, True, False])):
                call = (gradient, image, weight, None, *form, mask)
                watch(f"convolution, gradient of {name}", case, lambda c=call: aten.convolution_backward(*c))


def attention() -> None:
    """The fused kinds of attention, and their gradients."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    backends = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION)
    for backend, (batch, heads, length, width, shared) in itertools.product(backends, ATTENTION):
        if backend is SDPBackend.EFFICIENT_ATTENTION and shared != heads:
            continue
        case = {
            "backend": backend.name,
            "batch": batch,
            "heads": heads,
            "length": length,
            "width": width,
            "shared": shared,
        }
        query = random(batch, heads, length, width, dtype=NARROW).requires_grad_()
        key = random(batch, shared, length, width, dtype=NARROW).requires_grad_()

        def call(q: Tensor = query, k: Tensor = key, kind: Any = backend) -> Tensor:
            with sdpa_kernel(kind):
                return functional.scaled_dot_product_attention(q, k, k, enable_gqa=q.shape[1] != k.shape[1])

        watch("attention", case, call)
        backward("attention, gradient", case, call(), [query, key])


def others() -> None:
    """Sorting, reductions, embeddings, recurrent layers."""
    for count in (1_000, 100_000, 4_000_000):
        values = random(count)
        for name in ("sort", "argsort", "sum", "max", "argmax", "norm", "cumsum"):
            arguments = (0,) if name == "cumsum" else ()
            watch(name, {"count": count}, lambda n=name, v=values, a=arguments: getattr(v, n)(*a))
        watch("unique", {"count": count}, lambda v=values: v.unique())
    for rows, columns in ((13_920, 384), (13_920, 1_536), (4_096, 1_024), (256, 50_257), (32, 1_000_000)):
        matrix = random(rows, columns)
        for dim in (0, 1):
            case = {"rows": rows, "columns": columns, "dim": dim}
            watch("sum", case, lambda m=matrix, d=dim: m.sum(d))
    for count, rows, width in ((1_000, 32_000, 512), (16_000, 50_257, 768)):
        weight = random(rows, width).requires_grad_()
        indices = torch.arange(count, device="cuda") % rows
        case = {"count": count, "rows": rows, "width": width}
        backward("embedding, gradient", case, functional.embedding(indices, weight), [weight])
    for kind, layers, both in itertools.product((nn.LSTM, nn.GRU), (1, 3), (False, True)):
        layer = kind(256, 512, layers, batch_first=True, bidirectional=both).cuda()
        case = {"kind": kind.__name__, "layers": layers, "bidirectional": both}
        source = random(32, 100, 256).requires_grad_()
        watch("recurrent", case, lambda m=layer, s=source: m(s)[0])
        backward("recurrent, gradient", case, layer(source)[0], [source])


if __name__ == "__main__":
    convolutions()
    attention()
    others()
    about = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    print(json.dumps({**about, "cudnn": torch.backends.cudnn.version(), "rows": ROWS}))
