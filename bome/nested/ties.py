"""What if the inner problem has several solutions? f over those that were found, the best and the worst.

The best θ for f descends f + σ g, the worst one −f + σ g: with σ large both stay where g is least.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

from bome.nested.value import Point, Start, ValueFunction

LEVEL = 1e-4
"""How much above its least value g may be, in sizes of f divided by σ."""


class Ties(NamedTuple):
    """f over the inner minimisers found at the solution's v.

    Attributes:
        best: the lowest f: what is reported, as `solve` is optimistic.
        worst: the highest f: what may happen if the inner problem is solved without a look at f.
    """

    best: float
    worst: float


def ties(value: ValueFunction, point: Point, starts: Iterable[Start], sigma: float) -> Ties:
    """Ascend f among the inner minimisers, from each start."""
    size = max(value.units.f, abs(point.f))
    found = [y for y in value.upper(point.v, starts, sigma, a=-1.0) if y.over <= 1e-5 and math.isfinite(y.value)]
    least = value.losses.weighted(0.0, 1.0, point.v, point.theta, "inner").g - max(point.q, 0.0)
    level = least + LEVEL * size / sigma + 2 * max(point.q, 0.0)
    minimal = [y.sum.f for y in found if y.sum.g <= level]
    return Ties(min([point.f, *minimal]), max([point.f, *minimal]))
