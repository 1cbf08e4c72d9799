"""The one reader of pickles: for two published data sets, after their digest is checked.

Only what these files consist of can be made: containers, numbers, text, and arrays of numbers or text. Any other name
is refused, so no code can run. Names of classes are answered by stand-ins, none of which is the class itself.
"""

import io
import pickle
import re
from typing import Any

import numpy as np

from bome.errors import StorageError

_DAMAGE = (
    pickle.UnpicklingError, EOFError, ValueError, TypeError, LookupError, AttributeError, OverflowError, MemoryError,
    RecursionError, ImportError,
)  # fmt: skip


def read_pickle(content: bytes, what: str) -> Any:
    """The content of a pickle of plain data; text of Python 2 is read as latin-1.

    Args:
        content: the bytes, whose digest has been checked.
        what: names the file in errors.

    Returns:
        What was pickled, with `Array` in the place of each array.

    Raises:
        StorageError: it is damaged, or asks for anything but plain data.
    """
    try:
        return _Reader(io.BytesIO(content), encoding="latin1").load()
    except _DAMAGE as error:
        raise StorageError(f"{what} is refused: {error or type(error).__name__}") from error


class Array:
    """Stands for an array of NumPy while a pickle is read.

    Attributes:
        value: the array.
    """

    value: np.ndarray[Any, Any]

    def __init__(self, *_: object) -> None:
        self.value = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple[int, tuple[int, ...], "_Kind", bool, bytes | str]) -> None:
        _, shape, kind, by_columns, raw = state
        if not isinstance(kind, _Kind) or not isinstance(raw, (bytes, str)):
            raise pickle.UnpicklingError("only arrays of numbers and text can be read")
        data = raw.encode("latin1") if isinstance(raw, str) else raw
        flat = np.frombuffer(data, np.dtype(kind.order + kind.code))
        self.value = flat.reshape(shape, order="F" if by_columns else "C")


class _Kind:
    """Stands for `numpy.dtype`."""

    def __init__(self, code: str, *_: object) -> None:
        if not re.fullmatch(r"[iuf][1248]|U\d{1,4}", code):
            raise pickle.UnpicklingError(f"arrays of {code} cannot be read")
        self.code, self.order = code, "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if state[1] not in ("<", ">", "|", "="):
            raise pickle.UnpicklingError("an array of an unknown byte order")
        self.order = state[1]


class _Bunch(dict[str, Any]):
    """Stands for the dictionary of scikit-learn."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.update(state)


class _Marker:
    """Stands for `numpy.ndarray`, which is only named, never called."""

    def __new__(cls, *_: object) -> "_Marker":
        raise pickle.UnpicklingError("it makes an array in another way")

    def __setstate__(self, state: object) -> None:
        """Never called."""


# Each stand-in has `__setstate__`: a pickle could otherwise set attributes of the class itself.
_ALLOWED: dict[tuple[str, str], type] = {
    ("sklearn.utils._bunch", "Bunch"): _Bunch,
    ("numpy", "ndarray"): _Marker,
    ("numpy", "dtype"): _Kind,
    ("numpy.core.multiarray", "_reconstruct"): Array,
    ("numpy._core.multiarray", "_reconstruct"): Array,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None
