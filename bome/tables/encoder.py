"""The one encoder: from arrays, sparse matrices and frames to a matrix of numbers that a model can use."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.utils.validation import check_array

from bome._typing import Array, Matrix
from bome.errors import ProblemError

LIMIT = 30.0
"""Standardised values beyond this are cut: no single entry of a row may outweigh all others."""

SMALL = 4_000_000
"""Tables of up to this many entries are held in float64."""
BLOCK = 65_536


@dataclass(frozen=True)
class Category:
    """A column of categories: one feature per level; other values have none."""

    name: str
    levels: tuple[str, ...]

    @classmethod
    def learn(cls, name: str, column: "pd.Series[Any]", most: int | None = None) -> "Category":
        """The levels of a column of text, sorted; of very many only the `most` frequent ones."""
        counts = column.value_counts()
        return cls(name, tuple(sorted(map(str, counts.index if most is None else counts.head(most).index))))

    def encode(self, column: "pd.Series[Any]") -> sparse.csr_matrix:
        """Ones at the levels of the cells, in float32."""
        codes = pd.Index(list(self.levels), dtype=object).get_indexer(column.astype(object))
        rows = np.flatnonzero(codes >= 0)
        ones = np.ones(len(rows), dtype=np.float32)
        return sparse.csr_matrix((ones, (rows, codes[rows])), shape=(len(column), len(self.levels)))


class Encoder:
    """Numbers are standardised, categories become one column for each value seen; what was not seen is all zero.

    Dense features that share one scale (pixels) are divided by one number, others each by its own deviation. Sparse
    features are not centred.
    """

    _categories: tuple[Category, ...]
    _mean: Array | None
    _scale: Array | float

    def fit(self, x: Any) -> "Encoder":
        """Learn columns and scales."""
        self._categories = ()
        if is_frame(x):
            frame = as_pandas(x)
            names = [name for name in frame.columns if not is_numeric(frame[name])]
            self._categories = tuple(Category.learn(name, frame[name].astype(str)) for name in names)
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
        if not self._categories:
            return scaled
        frame = as_pandas(x)
        levels = [each.encode(frame[each.name].astype(str)).toarray() for each in self._categories]
        return np.hstack([scaled, *(block.astype(scaled.dtype) for block in levels)])

    def to_arrays(self) -> dict[str, Array]:
        """What was learned from a matrix, for a file.

        Raises:
            ProblemError: it was a frame with categories.
        """
        if self._categories:
            raise ProblemError("the encoder of a frame with categories cannot be saved; fit a matrix of numbers")
        mean = {} if self._mean is None else {"mean": np.asarray(self._mean)}
        return {"scale": np.asarray(self._scale), **mean}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> "Encoder":
        """Undo `to_arrays`."""
        encoder = cls()
        encoder._categories, encoder._mean = (), arrays.get("mean")
        encoder._scale = arrays["scale"] if arrays["scale"].ndim else float(arrays["scale"])
        return encoder

    def _numbers(self, x: Any) -> Matrix:
        if not is_frame(x):
            return x
        frame = as_pandas(x).drop(columns=[each.name for each in self._categories])
        if not frame.shape[1]:
            return np.zeros((len(frame), 0))
        return check_array(frame, dtype=[np.float64, np.float32])


def is_frame(x: Any) -> bool:
    """Whether it is a data frame of pandas or polars."""
    return hasattr(x, "columns") and hasattr(x, "dtypes")


def as_pandas(x: Any) -> pd.DataFrame:
    """The frame as one of pandas."""
    if isinstance(x, pd.DataFrame):
        return x
    return pd.DataFrame({name: x[name].to_numpy() for name in x.columns})


def is_numeric(column: "pd.Series[Any]") -> bool:
    """Whether a column holds numbers; truth values are categories."""
    return pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype)


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
