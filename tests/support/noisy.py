"""Digits with wrong labels, for the tests of the estimators."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

Array = NDArray[Any]


@dataclass(frozen=True)
class Noisy:
    """Doubtful rows with given and true labels, trusted rows, and rows to test on."""

    x: Array
    given: Array
    true: Array
    trusted_x: Array
    trusted: Array
    test_x: Array
    test: Array

    @property
    def wrong(self) -> Array:
        return np.asarray(self.given != self.true)


def digits(share: float, seed: int, doubtful: int = 400, trusted: int = 100) -> Noisy:
    """That share of the doubtful labels is drawn uniformly among all ten."""
    x, y = load_digits(return_X_y=True)
    random = np.random.default_rng(seed)
    order = random.permutation(len(y))
    x, y = x[order], y[order]
    given = np.where(random.random(doubtful) < share, random.integers(0, 10, doubtful), y[:doubtful])
    end = doubtful + trusted
    return Noisy(x[:doubtful], given, y[:doubtful], x[doubtful:end], y[doubtful:end], x[end:], y[end:])
