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
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK)
        lock.acquire()
    except OSError as error:
        raise StorageError(f"cannot write {folder}: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()
