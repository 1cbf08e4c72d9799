"""Which of the points found is the best: the lowest f + σ q, where q is measured again until the best is confirmed.

    until the point with the lowest f + σ q has been looked at:
        1:  g at its v, at its θ, at scattered θ and at those of the 12 best points
        2:  descents of g from the four lowest of them
        3:  q = g(θ) − the lowest g
    4:  of this point, θ is solved again, by g alone and with that σ: so f is F(v), however small the σ of its run was

σ is the largest one of all runs, so that a point counts for little whose θ does not solve the inner problem.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from bome.nested.losses import Spent
from bome.nested.search import score
from bome.nested.sets import TOLERATED
from bome.nested.survey import Dice, Extent
from bome.nested.value import Point, Start, ValueFunction

OTHERS, DESCENTS = 12, 4
"""θ of other points that are looked at, and how many are descended from."""
ROUNDS, SETTLED = 8, 1e-5
"""Descents of g one after the other in line 4, and the gain after which no other is made, in units of f / σ."""


def choose(value: ValueFunction, found: Sequence[Point], penalty: float, extent: Extent, dice: Dice) -> list[Point]:
    """The points in the order of f + σ q, best first; the best has been confirmed, if the budget allowed that."""
    points = [point for i, point in enumerate(found) if not any(_equal(point, other) for other in found[:i])]
    points = sorted(points, key=lambda point: score(point, penalty))
    seen: set[int] = set()
    scatter = [value.sets.drawn(theta) for theta in extent.scattered(dice)]
    others = [point.theta for point in points[:OTHERS]]
    order = list(range(len(points)))
    try:
        while (first := min(order, key=lambda i: score(points[i], penalty))) not in seen:
            seen.add(first)
            point = points[first]
            points[first] = point._replace(q=gap(value, point, [*scatter, *others], penalty))
    except Spent:
        pass
    return sorted(points, key=lambda point: score(point, penalty))


def _equal(one: Point, other: Point) -> bool:
    """Whether a point is that of a run which ended as another did."""
    return one.f == other.f and torch.equal(one.v, other.v) and torch.equal(one.theta, other.theta)


def exact(value: ValueFunction, point: Point, sigma: float) -> Point:
    """Line 4: the best by f + σ q of the point, of where g falls to from its θ, and of where f + σ g falls to."""
    losses, z, found = value.losses, Start(point.theta), [point]
    enough = SETTLED * max(value.units.f, abs(point.f)) / sigma
    try:
        own = last = losses.weighted(0.0, 1.0, point.v, point.theta, "inner").g
        for _ in range(ROUNDS):
            (lower,) = value.lower(point.v, [z], sigma)
            z, gain, last = lower.start, last - lower.value, lower.value
            least = losses.weighted(1.0, 1.0, point.v, z.theta)
            if least.c.max(initial=0.0) <= TOLERATED:
                found.append(point._replace(f=least.f, q=point.q + least.g - own, theta=z.theta))
            if not gain > enough:
                break
        (y,) = value.upper(point.v, [Start(point.theta)], sigma)
        if y.over <= TOLERATED:
            found.append(point._replace(f=y.sum.f, q=point.q + y.sum.g - own, theta=y.start.theta))
    except Spent:
        pass
    lowest = min(each.q for each in found)
    found = [each._replace(q=each.q - min(lowest, 0.0)) for each in found]
    return min(found, key=lambda each: score(each, sigma))


def gap(value: ValueFunction, point: Point, thetas: Iterable[Tensor], sigma: float) -> float:
    """q = g(v, θ) − the lowest g that is found from θ and from others."""
    own = value.losses.weighted(0.0, 1.0, point.v, point.theta, "inner")
    looked = [(value.losses.weighted(0.0, 1.0, point.v, theta, "inner").g, theta) for theta in thetas]
    looked = sorted(looked, key=lambda pair: pair[0])
    starts = [Start(point.theta), *(Start(theta) for _, theta in looked[: DESCENTS - 1])]
    found = value.lower(point.v, starts, sigma)
    return own.g - min((each.value for each in found if each.over <= TOLERATED), default=own.g)
