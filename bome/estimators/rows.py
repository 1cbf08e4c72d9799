"""The rows of a cleaning job: those with doubtful labels and the trusted ones, and how they are split."""

from collections.abc import Iterator
from dataclasses import dataclass

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


def trusted_folds(labels: Array, count: int) -> list[tuple[Array, Array]]:
    """Folds of trusted rows in which every class stays among the rows to fit.

    A class with a single row cannot be held out, so that this row is always among those to fit.
    """
    single = np.bincount(labels)[labels] == 1
    parts = [(fit | single, held & ~single) for fit, held in folds(labels, count)]
    return [(fit, held) for fit, held in parts if held.any() and fit.any()]
