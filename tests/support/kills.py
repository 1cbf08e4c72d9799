"""Processes that kill themselves at a given moment."""

import itertools
import os
import signal
from collections.abc import Callable
from typing import Any

CHANGES = ("mkdir", "open", "write", "fsync", "rename", "replace", "unlink", "rmdir")


def die_at(n: int, torn: bool) -> None:
    """Make this process kill itself just before its n-th change to the disk, or half-way through its n-th write.

    Just before a change is also just after the one before.
    """
    left = itertools.count(n - 1, -1)

    def fatal(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if next(left) != 0:
                return real(*args, **options)
            if torn:
                real(args[0], args[1][: len(args[1]) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError("unreachable")

        return call

    for name in ("write",) if torn else CHANGES:
        setattr(os, name, fatal(getattr(os, name)))


def in_child(work: Callable[[], None]) -> int:
    """Fork, do the work in the child and return its pid; the child never returns."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:  # the child must end here whatever happens
            os.write(2, f"child: {error!r}\n".encode())
            os._exit(1)
        os._exit(0)
    return pid


def killed_at(n: int, work: Callable[[], object]) -> bool:
    """Do the work in a process that kills itself just before its n-th change to the disk; whether it came to that."""

    def until_death() -> None:
        die_at(n, torn=False)
        work()

    _, status = os.waitpid(in_child(until_death), 0)
    assert status in (0, signal.SIGKILL)
    return status == signal.SIGKILL
