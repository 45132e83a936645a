"""Has a spawned process compute something first; that imports this file again."""

import multiprocessing

import torch

import autotune


def double(number):
    return 2 * number


if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(double, (21,)) == 42
    torch.ones(1000)
    autotune.step()
