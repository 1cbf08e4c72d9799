"""What tests ask of a point: solve the inner problem again, from here and from elsewhere; see what v is worth nearby.

The worth of v is ψ_σ(v) = min_θ [f(v, θ) + σ g(v, θ)] − σ min_θ g(v, θ), for a large σ close to the least f among the
inner minimisers. With y and z the two minimisers its gradient is ∇_v f(v, y) + σ (∇_v g(v, y) − ∇_v g(v, z)).
"""

import math
import statistics
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import torch

from bome._typing import Leaves
from bome.certificate.descent import Place, Reached, descend
from bome.certificate.looks import Looks, near, sizes
from bome.core.trees import Pair, axpy, dot, scale, sub

FINE = 1e-6
"""What a step must gain for a descent to go on, relative to how much the loss varies around θ."""
STEPS = 60
"""The most looks of one descent."""
SIGMA = 100.0
"""σ, relative to what f and g vary by."""


class Scales(NamedTuple):
    """How much f and g vary over points near θ: what their differences are judged by."""

    f: float
    g: float


class Worth(NamedTuple):
    """ψ_σ at some v.

    Attributes:
        value: ψ_σ.
        z: the minimiser of g.
        y: the minimiser of f + σ g.
        grad: the gradient of ψ_σ.
    """

    value: float
    z: Place
    y: Leaves
    grad: Leaves


class Probe:
    """A point, and what descents have found around it.

    Attributes:
        looks: f and g.
        point: the point.
        found: inner minimisers for its v.
    """

    def __init__(self, looks: Looks, point: Pair) -> None:
        self.looks, self.point = looks, point
        self.found: list[Place] = []
        self._generator = torch.Generator().manual_seed(0)
        self._drawn = point.theta

    @cached_property
    def f(self) -> float:
        """f at the point."""
        return float(self.looks.f(*self.point, "v").value)

    @cached_property
    def g(self) -> float:
        """g at the point."""
        return float(self.looks.g(*self.point, "v").value)

    @cached_property
    def scales(self) -> Scales:
        """Measured at three points: g over θ, f over both."""
        v, theta = self.point
        df, dg = [], []
        for radius in (0.1, 0.3, 1.0):
            there = self._beside(theta, radius, self.looks.problem.project_theta)
            aside = self._beside(v, radius, self.looks.problem.project_v)
            df.append(abs(float(self.looks.f(aside, there, "v").value) - self.f))
            dg.append(abs(float(self.looks.g(v, there, "v").value) - self.g))
        rounding = 1e3 * torch.finfo(theta[0].dtype).eps
        least = torch.finfo(torch.float64).tiny  # so that one can divide by them
        return Scales(max(abs(self.f), _middle(df), least), max(_middle(dg), rounding * abs(self.g), least))

    @property
    def loudness(self) -> float:
        """How much g varies over θ here, relative to v at a distance of its size on either side, where that is less."""
        way, v = self.direction(), self.point.v
        spreads = []
        for side in (1.0, -1.0):
            there = self.moved(scale(side, way), 1.0)
            if float(dot(sub(there, v), sub(there, v))) > 0:
                thetas = [self._beside(self.point.theta, r, self.looks.problem.project_theta) for r in (0.1, 0.3, 1.0)]
                base, *values = (float(self.looks.g(there, x, "v").value) for x in (self.point.theta, *thetas))
                spreads.append(_middle([abs(value - base) for value in values]))
        return self.scales.g / max(min(spreads, default=0.0), self.scales.g)

    def lower(self, v: Leaves, start: Leaves, steps: int = STEPS) -> Reached:
        """A descent of g(v, ·)."""
        return self._descent(lambda theta: self.place(v, theta), start, FINE * self.scales.g, steps)

    def place(self, v: Leaves, theta: Leaves) -> Place:
        """g(v, ·) at a point."""
        g = self.looks.g(v, theta, "theta")
        return Place(theta, float(g.value), g.grad.theta)

    @property
    def best(self) -> Place:
        """The lowest of the inner minimisers found."""
        return min(self.found, key=lambda place: place.value)

    def fresh(self, radius: float) -> Leaves:
        """A start for θ elsewhere, at a distance in units of its size, at least 1; opposite to the last if negative."""
        if radius > 0:
            self._drawn = near(self.point.theta, radius, 1.0, self._generator)
        else:
            self._drawn = sub(scale(2.0, self.point.theta), self._drawn)
        return self.looks.problem.project_theta(self._drawn)

    def moved(self, direction: Leaves, radius: float) -> Leaves:
        """v, moved along a direction by a part of its size, at least 1; where its set ends, along its face."""
        v, onto = self.point.v, self.looks.problem.project_v
        far = radius * max(1.0, math.sqrt(sum(s * s * x.numel() for s, x in zip(sizes(v, 0.0), v, strict=True))))
        for _ in range(2):
            norm = math.sqrt(float(dot(direction, direction)))
            there = onto(axpy(far / norm if norm > 0 else 0.0, direction, v))
            direction = sub(there, v)  # what the set has left of it
        return there

    @property
    def size(self) -> float:
        """The norm of the point, at least 1."""
        return max(1.0, math.sqrt(float(dot(self.point.v, self.point.v) + dot(self.point.theta, self.point.theta))))

    def direction(self) -> Leaves:
        """A random direction in the space of v."""
        return sub(near(self.point.v, 1.0, 1.0, self._generator), self.point.v)

    @property
    def sigma(self) -> float:
        """σ."""
        return SIGMA * min(self.scales.f / self.scales.g, 1e12)

    def worth(self, v: Leaves, starts: list[Leaves]) -> Worth:
        """ψ_σ(v) by descents from the lowest of some θ."""
        z = min((self.lower(v, start).place for start in starts), key=lambda place: place.value)

        def both(theta: Leaves) -> Place:
            f, g = self.looks.f(v, theta, "theta"), self.looks.g(v, theta, "theta")
            value = float(f.value) + self.sigma * (float(g.value) - z.value)
            return Place(theta, value, axpy(self.sigma, g.grad.theta, f.grad.theta))

        first = min((both(theta) for theta in (z.x, *starts)), key=lambda place: place.value)
        y = self._descent(both, first.x, 10 * FINE * self.scales.f, STEPS).place
        f, gy, gz = (look(v, x, "v") for look, x in ((self.looks.f, y.x), (self.looks.g, y.x), (self.looks.g, z.x)))
        if float(gy.value) < z.value:  # the descent to z has not come to its end
            return Worth(float(f.value), self.place(v, y.x), y.x, f.grad.v)
        return Worth(y.value, z, y.x, axpy(self.sigma, sub(gy.grad.v, gz.grad.v), f.grad.v))

    def _beside(self, x: Leaves, radius: float, onto: Callable[[Leaves], Leaves]) -> Leaves:
        """A random point near x, within its set; from a bound it is sought on either side."""
        moved = near(x, radius, 0.1, self._generator)
        there = onto(moved)
        return there if float(dot(sub(there, x), sub(there, x))) > 0 else onto(sub(scale(2.0, x), moved))

    def _descent(self, look: Callable[[Leaves], Place], start: Leaves, gain: float, steps: int) -> Reached:
        size = 0.1 * math.sqrt(sum(s * s * x.numel() for s, x in zip(sizes(start, 0.1), start, strict=True)))
        return descend(look, start, self.looks.problem.project_theta, size, gain, steps)


def _middle(values: list[float]) -> float:
    """The median of those that are finite."""
    sound = [value for value in values if math.isfinite(value)]
    return statistics.median(sound) if sound else 0.0
