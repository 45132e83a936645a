"""Prints ten megabytes to each stream, then trains."""

import sys

for stream in (sys.stdout, sys.stderr):
    for _ in range(10):
        stream.write("x" * 999_999 + "\n")

import trains  # noqa: E402, F401
