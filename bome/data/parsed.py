"""Parsed data sets, kept in the cache as verified files from which no code can run."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bome.data.files import cache_folder
from bome.errors import StorageError
from bome.storage.lock import alone
from bome.storage.memo import Memo

FORMAT = 2
"""Goes up when a parser gives something else than before."""

_ENTRY = "entry"


def is_kept(name: str) -> bool:
    """Whether something is in the cache; it is verified when it is loaded."""
    return (_folder(name) / f"{_ENTRY}.json").is_file()


def keep(name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `make` gives, kept in the cache; made only if it is not there or is damaged.

    Of several processes that ask for it at once, one makes it and the others wait.

    Args:
        name: of the entry.
        make: gives what `bome.storage.memo` can hold.

    Raises:
        StorageError: the cache cannot be written, or `make` cannot read its files.
    """
    memo = Memo(_folder(name))
    state: dict[str, Any] | None = memo.read(_ENTRY, name)
    if state is not None:
        return state
    with ExitStack() as stack:
        with _remedy():
            stack.enter_context(alone(_folder(name)))
        state = memo.read(_ENTRY, name)
        if state is None:
            state = make()
            with _remedy():
                memo.write(_ENTRY, name, state)
        return state


def _folder(name: str) -> Path:
    return cache_folder() / "parsed" / f"{name}-{FORMAT}"


@contextmanager
def _remedy() -> Iterator[None]:
    """Say what to do if the cache cannot be written."""
    try:
        yield
    except StorageError as error:
        raise StorageError(f"{error}; set BOME_CACHE to a folder that can be written") from error
