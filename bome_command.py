"""Starts the command `bome`: an interrupt ends it with one line even while its libraries are being loaded.

Outside of the package, since importing anything of that loads PyTorch first.
"""

import os
import signal
from typing import Any


def main() -> None:
    """The entry point of the command."""
    before = signal.signal(signal.SIGINT, _stop)
    from bome.cli.main import main as command

    signal.signal(signal.SIGINT, before)
    command()


def _stop(number: int, frame: Any) -> None:
    os.write(2, b"error: interrupted\n")
    os._exit(128 + number)  # half-loaded libraries cannot be unwound
