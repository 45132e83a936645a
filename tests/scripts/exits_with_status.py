"""Calls sys.exit with a status of its own."""

import sys

sys.exit(3)
