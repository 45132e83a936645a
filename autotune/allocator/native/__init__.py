"""The native engine: PyTorch's own caching allocator, without a GPU.

What is real: the allocator of an installed torch, every line of it. What is not: the device, a stand-in for
the CUDA runtime and driver that only counts memory. So it answers what PyTorch would do, for one release and
slowly; it is the judge of the `model` engine.

What is not covered: graph capture (a private pool is used as by `torch.cuda.use_mem_pool`, and kept); memory
taken by other processes; the driver's own fragmentation. A trace's free is one event, at its completion.

Room by room: `stand_in.h` and the C files (the device), `build` (compiles them; what any process needs to see
the device), `server` (the warm process, in the interpreter that has torch), `process` (that process from our
side), `engine` (requests and answers).
"""

from autotune.allocator.native.build import stand_in_environment
from autotune.allocator.native.engine import Native

__all__ = ["Native", "stand_in_environment"]
