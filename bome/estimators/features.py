"""From what a user has (arrays, sparse matrices, frames) to a matrix of numbers a model can use."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_array

from bome.errors import ProblemError
from bome.estimators.softmax import Array, Matrix

LIMIT = 30.0
"""Standardised values beyond this are cut: no single entry of a row may outweigh all others."""

SMALL = 4_000_000
"""Tables of up to this many entries are held in float64."""
BLOCK = 65_536


class Encoder:
    """Numbers are standardised, categories become one column for each value seen; what was not seen is all zero.

    Dense features that share one scale (pixels) are divided by one number, others each by its own deviation. Sparse
    features are not centred.
    """

    _categories: OneHotEncoder | None
    _mean: Array | None
    _scale: Array | float

    def fit(self, x: Any) -> "Encoder":
        """Learn columns and scales."""
        self._categories = None
        if is_frame(x):
            frame = as_pandas(x)
            self._names = [name for name in frame.columns if not _numeric(frame[name])]
            if self._names:
                encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False, dtype=np.float32)
                self._categories = encoder.fit(_texts(frame[self._names]))
        numbers = self._numbers(x)
        if sparse.issparse(numbers):
            square = np.asarray(numbers.multiply(numbers).sum(axis=0)).ravel() / numbers.shape[0]
            self._mean, self._scale = None, max(float(np.sqrt(square.sum())), 1e-30)
        else:
            self._mean = numbers.mean(axis=0, dtype=np.float64)
            self._scale = _scale(numbers)
        return self

    def transform(self, x: Any) -> Matrix:
        """A float matrix with the columns seen at fit."""
        numbers = self._numbers(x)
        if sparse.issparse(numbers):
            return (numbers * (1 / self._scale)).tocsr()
        scaled = _scaled(numbers, 0.0 if self._mean is None else self._mean, self._scale)
        if self._categories is None:
            return scaled
        return np.hstack([scaled, self._categories.transform(_texts(as_pandas(x)[self._names])).astype(scaled.dtype)])

    def to_arrays(self) -> dict[str, Array]:
        """What was learned from a matrix, for a file.

        Raises:
            ProblemError: it was a frame with categories.
        """
        if self._categories is not None:
            raise ProblemError("the encoder of a frame with categories cannot be saved; fit a matrix of numbers")
        mean = {} if self._mean is None else {"mean": np.asarray(self._mean)}
        return {"scale": np.asarray(self._scale), **mean}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> "Encoder":
        """Undo `to_arrays`."""
        encoder = cls()
        encoder._categories, encoder._mean = None, arrays.get("mean")
        encoder._scale = arrays["scale"] if arrays["scale"].ndim else float(arrays["scale"])
        return encoder

    def _numbers(self, x: Any) -> Matrix:
        if not is_frame(x):
            return x
        frame = as_pandas(x)
        if self._categories is not None:
            frame = frame.drop(columns=self._names)
        if not frame.shape[1]:
            return np.zeros((len(frame), 0))
        return check_array(frame, dtype=[np.float64, np.float32])


def checked(x: Any) -> Any:
    """A float array or CSR matrix without NaN and infinity; frames with categories stay frames."""
    if is_frame(x) and x.shape[0]:
        frame = as_pandas(x)
        for name in frame.columns:
            if frame[name].isna().any():
                row = int(np.flatnonzero(frame[name].isna())[0])
                raise ProblemError(
                    f"Input X contains NaN: column {name!r} has a missing value in row {row}; fill it in or drop it"
                )
        if not all(_numeric(frame[name]) for name in frame.columns):
            return frame
    return check_array(x, accept_sparse="csr", dtype=[np.float64, np.float32])


def is_frame(x: Any) -> bool:
    """Whether it is a data frame of pandas or polars."""
    return hasattr(x, "columns") and hasattr(x, "dtypes")


def as_pandas(x: Any) -> pd.DataFrame:
    """The frame as one of pandas."""
    if isinstance(x, pd.DataFrame):
        return x
    return pd.DataFrame({name: x[name].to_numpy() for name in x.columns})


def _numeric(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype)


def _texts(frame: pd.DataFrame) -> Array:
    return np.asarray(frame.astype(str), dtype=object)


def _scaled(numbers: Array, mean: Array | float, scale: Array | float) -> Array:
    """Standardised numbers, block by block; large tables in float32, which is half the memory."""
    dtype = np.float64 if numbers.size <= SMALL and numbers.dtype == np.float64 else np.float32
    out = np.empty(numbers.shape, dtype=dtype)
    for start in range(0, len(numbers), BLOCK):
        block = (numbers[start : start + BLOCK] - mean) / scale
        out[start : start + BLOCK] = np.clip(block, -LIMIT, LIMIT)
    return out


def _scale(numbers: Array) -> Array | float:
    """One deviation for all features where their ranges are alike, else one for each."""
    if not numbers.shape[1]:
        return 1.0
    deviation = numbers.std(axis=0, dtype=np.float64)
    extent = np.ptp(numbers, axis=0).astype(np.float64)
    varying = extent > 0
    if not varying.any():
        return 1.0
    if extent[varying].max() <= 4 * np.median(extent[varying]) and numbers.shape[1] > 8:
        return float(np.sqrt(np.mean(deviation[varying] ** 2)))
    return np.where(deviation > 0, deviation, 1.0)


def check_known(given: Array, trusted: Array) -> None:
    """Refuse a label of the validation rows that no training row has: it is misspelt, or of another kind."""
    unknown = sorted(set(trusted.tolist()) - set(given.tolist()), key=str)
    if unknown:
        names = ", ".join(map(repr, unknown[:5]))
        raise ProblemError(f"y_val has labels that y has not: {names}; are they misspelt, or of another type?")
