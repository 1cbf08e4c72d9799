"""Numbers over instances: means with their errors, and the exponents of power laws."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Fit(NamedTuple):
    """A number over instances: its mean, its standard error, and how many there are."""

    mean: float
    se: float
    n: int

    def __str__(self) -> str:
        rounding = 1e-12  # what is left of a standard error of 0
        digits = 2 if self.se >= 0.01 or self.se <= rounding else min(4, math.ceil(-math.log10(self.se)))
        return f"{self.mean:.{digits}f} ± {self.se:.{digits}f}"


def spread(values: Array) -> Fit:
    """Mean and standard error of numbers, one for each instance."""
    count = len(values)
    return Fit(float(values.mean()), float(values.std(ddof=1) / math.sqrt(count)) if count > 1 else 0.0, count)


def slopes(x: Array, y: Array) -> Array:
    """The least-squares slope of each column of y in x."""
    return np.asarray(np.polyfit(x, y, 1)[0])


def power(x: Array, y: Array) -> Fit:
    """The exponent p of y ∝ x^p, fitted for each instance; y has shape (len(x), instances)."""
    return spread(slopes(np.log(x), np.log(y)))


def minus(fit: Fit) -> Fit:
    """The number with the other sign."""
    return fit._replace(mean=-fit.mean)


def decay(t: Array, values: Array) -> Fit:
    """The rate of exponential decay in T where the values are well above their floor, which is that of the last T."""
    above = values.mean(1) > 3 * values[-1].mean()
    used = max(2, len(t) if above.all() else int(np.argmin(above)))
    return minus(spread(slopes(t[:used], np.log(values[:used]))))


def decay_rates(k: Array, values: Array, floor: Array | float, top: float = np.inf) -> Array:
    """The rate of exponential decay of each column from where it is at most `top` to where it meets its floor."""
    floors = np.broadcast_to(floor, values.shape[1:])
    return np.array([decay_rate(k, column, float(low), top) for column, low in zip(values.T, floors, strict=True)])


def decay_rate(k: Array, values: Array, floor: float, top: float = np.inf) -> float:
    """The rate of exponential decay of one column, from where it is at most `top` to where it meets its floor."""
    begin = int(np.argmax(values <= top))
    below = np.flatnonzero(values[begin:] < floor)
    end = begin + max(3, int(below[0]) if len(below) else len(values))
    return float(-slopes(k[begin:end], np.log(values[begin:end, None]))[0])
