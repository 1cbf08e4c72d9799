"""Ctrl-C and SIGTERM as requests to stop after the current step, so that a state can be saved before the end."""

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType


@contextmanager
def signals(wanted: bool = True) -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM for the end of the current step; a second one of a kind has its usual effect at once.

    Of a kind: Ctrl-C reaches all processes of a terminal, and then the main one may send SIGTERM to the others.
    """
    asked: list[int] = []
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, note)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def obey(asked: Sequence[int]) -> None:
    """End as the first of these signals would have ended the program: for work that has nothing to give back yet."""
    if asked and asked[0] == signal.SIGINT:
        raise KeyboardInterrupt
    if asked:
        raise SystemExit(128 + asked[0])
