"""Closes every file it did not open, as a daemon does, then trains."""

import os

os.closerange(3, 256)

import trains  # noqa: E402, F401
