"""Never ends, and ignores SIGTERM."""

import signal
import time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("looping")
while True:
    time.sleep(0.05)
