"""One process at a time in a folder; the others wait."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from bome.errors import StorageError

LOCK = "lock"
"""The file in the folder; it stays, and means nothing unless a process holds it."""


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Wait until no other process holds the folder, and hold it; the lock of a process that died is free.

    Args:
        folder: made if missing.

    Raises:
        StorageError: the folder cannot be written.
    """
    try:
        lock = _acquire(folder)
    except OSError as error:
        raise StorageError(f"cannot write {folder}: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()


def _acquire(folder: Path) -> FileLock:
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire()
    except FileNotFoundError:
        if folder.exists():
            raise
        return _acquire(folder)  # whoever held it before has ended and removed it
    return lock
