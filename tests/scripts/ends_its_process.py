"""Ends its process behind Python's back."""

import os

os._exit(3)
