"""The rows of a cleaning job: those with doubtful labels and the trusted ones, and how they are split."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse

from bome._typing import Array, Matrix


@dataclass(frozen=True)
class Rows:
    """Doubtful and trusted rows.

    Attributes:
        x: features of the doubtful rows.
        labels: their labels, as numbers from 0.
        trusted_x: features of the trusted rows.
        trusted_labels: their labels.
        classes: the number of classes.
        marks: a number for each doubtful row, the same for rows that are equal.
        trusted_marks: likewise for the trusted rows.
    """

    x: Matrix
    labels: Array
    trusted_x: Matrix
    trusted_labels: Array
    classes: int
    marks: Array
    trusted_marks: Array

    @classmethod
    def of(cls, x: Matrix, labels: Array, trusted_x: Matrix, trusted_labels: Array, classes: int) -> "Rows":
        """Rows that nobody has marked yet."""
        return cls(x, labels, trusted_x, trusted_labels, classes, marks(x), marks(trusted_x))

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
        part = self.trusted_x[which], self.trusted_labels[which]
        return Rows(self.x, self.labels, *part, self.classes, self.marks, self.trusted_marks[which])

    def some(self, which: Array) -> "Rows":
        """Some doubtful rows and all of the trusted ones."""
        trusted = self.trusted_x, self.trusted_labels
        return Rows(self.x[which], self.labels[which], *trusted, self.classes, self.marks[which], self.trusted_marks)


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
    if 2 * len(np.unique(rows.marks)) < len(rows.marks):
        return Copies(np.arange(len(rows.trusted_marks)), np.full(len(rows.marks), -1))
    marks, first, member = np.unique(rows.trusted_marks, True, True)
    numbers = np.argsort(np.argsort(first))  # in the order in which the trusted rows come
    place = np.searchsorted(marks, rows.marks).clip(max=len(marks) - 1)
    return Copies(numbers[member], np.where(marks[place] == rows.marks, numbers[place], -1))


def marks(x: Matrix) -> Array:
    """A number for each row, the same for rows that are equal."""
    if sparse.issparse(x):
        ends = zip(x.indptr[:-1], x.indptr[1:], strict=True)
        rows = ((x.indices[a:b].tobytes(), x.data[a:b].tobytes()) for a, b in ends)
        return np.fromiter(map(hash, rows), np.int64, x.shape[0])
    return np.fromiter((hash(row.tobytes()) for row in x), np.int64, len(x))


def trusted_folds(labels: Array, count: int, kind: Array | None = None) -> list[tuple[Array, Array]]:
    """Folds of trusted rows in which every class stays among the rows to fit, and copies stay together.

    A class with a single row cannot be held out, so that this row is always among those to fit.
    """
    _, first, member = np.unique(np.arange(len(labels)) if kind is None else kind, True, True)
    of_kind = labels[first]
    single = np.bincount(of_kind)[of_kind] == 1
    parts = [((fit | single)[member], (held & ~single)[member]) for fit, held in folds(of_kind, count)]
    return [(fit, held) for fit, held in parts if held.any() and fit.any()]
