"""Allocates on the GPU as argv[1] says, dumps a snapshot to argv[2], prints what the allocator reports."""

import os
import sys

import torch

MIB = 1 << 20
how, path = sys.argv[1:]
cuda, memory = torch.cuda, torch.cuda.memory
cuda.init()


def allocate(size: int) -> int:
    return cuda.caching_allocator_alloc(size, 0, cuda.current_stream())


def work(rounds: int) -> list[int]:
    live: list[int] = []
    for number in range(rounds):
        live += [allocate((number % 7 + 1) * 3 * MIB + 5), allocate(1000 + number)]
        if len(live) > 12:
            for index in (0, 3):
                cuda.caching_allocator_delete(live.pop(index))
    return live


if how == "late":
    before = [allocate(50 * MIB), allocate(777), allocate(3 * MIB)]
memory._record_memory_history(max_entries=60 if how == "ring" else 100_000, context=None)
live = work(30)
if how == "pool":
    pool = cuda.MemPool()
    with cuda.use_mem_pool(pool):
        live += [allocate(30 * MIB), allocate(10)]
if how == "oom":
    try:
        allocate(9 << 30)
    except torch.OutOfMemoryError:
        for address in live[:4]:
            cuda.caching_allocator_delete(address)
memory._dump_snapshot(path)
stats = cuda.memory_stats()
names = ("reserved_bytes.all.peak", "requested_bytes.all.peak", "num_device_alloc", "num_device_free")
print(*(stats[name] for name in names), flush=True)
os._exit(0)  # the stand-in has no context to take down
