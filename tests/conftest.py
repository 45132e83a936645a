"""What holds for all tests."""

from __future__ import annotations

import signal

# A shell's background jobs, CI among them, ignore Ctrl-C, and so would every process that a test starts.
for _name in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_name) is signal.SIG_IGN:
        signal.signal(_name, signal.default_int_handler)
