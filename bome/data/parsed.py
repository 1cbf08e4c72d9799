"""Parsed data sets, kept in the cache as verified files from which no code can run."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bome.data.files import cache_folder
from bome.errors import StorageError
from bome.storage import checkpoint

FORMAT = 1
"""Goes up when a parser gives something else than before."""


def is_kept(name: str) -> bool:
    """Whether something is in the cache; it is verified when it is loaded."""
    return _place(name).is_dir()


def keep(name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `make` gives, kept in the cache; made only if it is not there or is damaged.

    Of several processes that ask for it at once, one makes it and the others wait.

    Args:
        name: of the entry.
        make: gives what `bome.storage.checkpoint` can hold.

    Raises:
        StorageError: the cache cannot be written, or `make` cannot read its files.
    """
    place = _place(name)
    with contextlib.suppress(StorageError):
        return _loaded(place)
    with _locked(place.parent):
        with contextlib.suppress(StorageError):
            return _loaded(place)
        state = make()
        try:
            checkpoint.save(place.parent, 0, state, keep=1)
        except StorageError as error:
            raise _unwritable(error) from error
        return state


def _place(name: str) -> Path:
    return cache_folder() / "parsed" / f"{name}-{FORMAT}" / "step_00000000"


def _loaded(place: Path) -> dict[str, Any]:
    state: dict[str, Any] = checkpoint.load(place).state
    return state


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Only one process at a time; the lock of a process that dies is free."""
    import fcntl  # POSIX only, as `bome.storage.checkpoint` is; the package can be imported elsewhere

    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "lock").open("a")
    except OSError as error:
        raise _unwritable(f"cannot write {folder}: {error.strerror}") from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _unwritable(reason: object) -> StorageError:
    return StorageError(f"{reason}; set BOME_CACHE to a folder that can be written")
