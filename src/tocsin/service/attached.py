"""A `tocsin` command that ends when whoever started it is gone, however that happened.

The service starts its pipeline so. Standard input is a pipe from the service, and nothing is ever written to it; it ends
when the service does, also by kill -9, when nobody is left to send a signal. Without this a pipeline would go on beside
the one that the next service starts, both over one checkpoint.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

COMMAND = (
    sys.executable,
    "-c",
    "from tocsin.service.attached import follow; follow(); from tocsin.cli import main; main()",
)
_PATIENCE_SECONDS = 10.0


def follow() -> None:
    """Let this process end when its standard input does."""
    threading.Thread(target=_follow, name="tocsin-attached", daemon=True).start()


def _follow() -> None:
    """Wait for the end of standard input, then ask this process to end, and make it."""
    while os.read(0, 1024):  # not by sys.stdin, whose lock would be held when the interpreter ends
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(_PATIENCE_SECONDS)
    os._exit(1)
