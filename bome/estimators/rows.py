"""The rows of a cleaning job: those with doubtful labels and the trusted ones, and how they are split."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse

from bome.estimators.softmax import Array, Matrix


@dataclass(frozen=True)
class Rows:
    """Doubtful and trusted rows.

    Attributes:
        x: features of the doubtful rows.
        labels: their labels, as numbers from 0.
        trusted_x: features of the trusted rows.
        trusted_labels: their labels.
        classes: the number of classes.
    """

    x: Matrix
    labels: Array
    trusted_x: Matrix
    trusted_labels: Array
    classes: int

    @property
    def given(self) -> Array:
        """The given labels as distributions, shape (rows, classes)."""
        return one_hot(self.labels, self.classes)

    @property
    def trusted(self) -> Array:
        """The trusted labels as distributions."""
        return one_hot(self.trusted_labels, self.classes)

    def with_trusted(self, which: Array) -> "Rows":
        """All doubtful rows and some of the trusted ones."""
        return Rows(self.x, self.labels, self.trusted_x[which], self.trusted_labels[which], self.classes)

    def some(self, which: Array) -> "Rows":
        """Some doubtful rows and all of the trusted ones."""
        return Rows(self.x[which], self.labels[which], self.trusted_x, self.trusted_labels, self.classes)


def one_hot(labels: Array, classes: int) -> Array:
    """Distributions that are sure of one class; in float32, as probabilities of many rows are held."""
    return np.asarray(np.eye(classes, dtype=np.float32)[labels])


def stack(a: Matrix, b: Matrix) -> Matrix:
    """The rows of both."""
    return sparse.vstack([a, b]).tocsr() if sparse.issparse(a) else np.concatenate([a, b])


def natural_order(x: Matrix, labels: Array, seed: int) -> Array:
    """An order of the rows that depends on what is in them, not on how they were given."""
    direction = np.random.default_rng(seed).standard_normal(x.shape[1]).astype(x.dtype)
    along = x @ direction if sparse.issparse(x) else np.einsum("ij,j->i", x, direction)
    return np.lexsort((along, labels))


def folds(labels: Array, count: int) -> Iterator[tuple[Array, Array]]:
    """Masks (to fit, to hold out) of `count` parts, each with its share of every class; rows come in natural order."""
    place = np.empty(len(labels), dtype=int)
    place[np.argsort(labels, kind="stable")] = np.arange(len(labels)) % count
    for part in range(count):
        yield place != part, place == part


class Copies(NamedTuple):
    """Which rows are the same one.

    Attributes:
        kind: a number for each trusted row; copies of each other have the same.
        twin: for each doubtful row the kind of the trusted rows that it is a copy of; -1 where there is none.
    """

    kind: Array
    twin: Array


def copies(rows: Rows) -> Copies:
    """Rows of the same features are copies where most rows are distinct; elsewhere they are a coincidence.

    A row that was held out tells nothing of a model that was fitted to its copy.
    """
    marks, doubtful = _marks(rows.trusted_x), _marks(rows.x)
    if 2 * len(set(doubtful)) < len(doubtful):
        return Copies(np.arange(len(marks)), np.full(len(doubtful), -1))
    kinds: dict[int, int] = {}
    kind = np.array([kinds.setdefault(mark, len(kinds)) for mark in marks])
    return Copies(kind, np.array([kinds.get(mark, -1) for mark in doubtful]))


def _marks(x: Matrix) -> list[int]:
    """A number for each row that tells it from others."""
    if sparse.issparse(x):
        ends = zip(x.indptr[:-1], x.indptr[1:], strict=True)
        return [hash((x.indices[a:b].tobytes(), x.data[a:b].tobytes())) for a, b in ends]
    return [hash(row.tobytes()) for row in x]


def trusted_folds(labels: Array, count: int, kind: Array | None = None) -> list[tuple[Array, Array]]:
    """Folds of trusted rows in which every class stays among the rows to fit, and copies stay together.

    A class with a single row cannot be held out, so that this row is always among those to fit.
    """
    _, first, member = np.unique(np.arange(len(labels)) if kind is None else kind, True, True)
    of_kind = labels[first]
    single = np.bincount(of_kind)[of_kind] == 1
    parts = [((fit | single)[member], (held & ~single)[member]) for fit, held in folds(of_kind, count)]
    return [(fit, held) for fit, held in parts if held.any() and fit.any()]
