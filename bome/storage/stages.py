"""The finished stages of a long fit, kept on disk: what is there is not computed again."""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse

from bome._typing import Array
from bome.errors import StorageError
from bome.storage import checkpoint

Arrays = dict[str, Array]


class Stages:
    """Results of stages by name.

    Args:
        folder: where they are kept; None keeps nothing.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def keep(self, name: str, compute: Callable[[], Arrays]) -> Arrays:
        """The result of a stage: read if it is there and whole, otherwise computed and written."""
        if self._folder is None:
            return compute()
        try:
            found = checkpoint.load_latest(self._folder / name)
        except StorageError:  # a damaged result is computed again
            found = None
        if found is not None:
            return {key: tensor.numpy() for key, tensor in found.state.items()}
        made = compute()
        checkpoint.save(self._folder / name, 0, {key: torch.as_tensor(array) for key, array in made.items()})
        return made


def digest(values: Iterable[Any]) -> str:
    """A digest of arrays, sparse matrices and whatever has a telling `repr`."""
    sha = hashlib.sha256()
    for value in values:
        for part in _parts(value):
            sha.update(f"{part.dtype} {part.shape} ".encode())
            sha.update(memoryview(part).cast("B"))
    return sha.hexdigest()


def _parts(value: Any) -> list[Any]:
    """The value as plain arrays."""
    if sparse.issparse(value):
        return [value.data, value.indices, value.indptr]
    if isinstance(value, np.ndarray) and value.dtype != object:
        return [np.ascontiguousarray(value)]
    text = "\0".join(map(str, value)) if isinstance(value, np.ndarray) else repr(value)
    return [np.frombuffer(text.encode("utf-8", "surrogatepass") + b"\0", dtype=np.uint8)]
