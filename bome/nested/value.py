"""The penalised value function of the inner problem, and its gradient, of first order only.

    ψ_σ(v) = min_θ { f(v, θ) + σ g(v, θ) : h, H ≤ 0 } − σ min_θ { g(v, θ) : h ≤ 0 }

        1:  z: descents of g from the z that are kept and one scattered point;   the lowest distinct ones are kept
        2:  y: descents of f + σ g from the y that are kept and the two lowest z
        3:  where g(y) < g(z), a descent of g from y: z was in a higher basin
        4:  ∇ψ = ∇_v f(y) + σ (∇_v g(y) − ∇_v g(z)) + Σ λ_y ∇_v (h, H)(y) − σ Σ λ_z ∇_v h(z),   by the envelope theorem

y and z are searched from several starts, since the value function is that of global minima.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bome._typing import Array
from bome.constraints import Level
from bome.nested.descent import Place, Rules, descend
from bome.nested.losses import Losses, Sum
from bome.nested.sets import TOLERATED, Sets, place

STEPS = 40
"""Of a descent in θ."""
TOLERANCE = 1e-5
"""Of a descent of f in θ, in units of ‖∇_θ f‖∞."""
GAIN = 1e-7
"""What 3 steps of it must bring, in sizes of f."""
KEPT_Z, KEPT_Y = 3, 2
"""Inner minimisers that are kept: of g, and of f + σ g."""
APART = 1e-3
"""The distance from which two minimisers count as two, in reaches of θ."""


class Start(NamedTuple):
    """Where a descent in θ begins.

    Attributes:
        theta: the point.
        s: its first step size, in units of 1/σ where it descends f + σ g; 0 where none is known.
    """

    theta: Tensor
    s: float = 0.0


class Minimiser(NamedTuple):
    """A local minimiser in θ.

    Attributes:
        value: of what was descended.
        start: the point and the last step size.
        sum: the losses there.
        grad_v: the gradient of the least value with respect to v.
        over: how much is violated.
        multipliers: of the constraints.
    """

    value: float
    start: Start
    sum: Sum
    grad_v: Tensor
    over: float
    multipliers: Array


@dataclass(frozen=True)
class Memory:
    """What ψ remembers from one v to the next.

    Attributes:
        z: starts for g.
        y: starts for f + σ g.
        scatter: random points.
        turn: how often one of them was taken.
    """

    z: tuple[Start, ...] = ()
    y: tuple[Start, ...] = ()
    scatter: tuple[Tensor, ...] = ()
    turn: int = 0


class Point(NamedTuple):
    """A solution of the inner problem at v that is as good for f as it can be.

    Attributes:
        f: f(v, θ).
        q: g(v, θ) − min g.
        sigma: σ.
        v: v.
        theta: θ.
        alpha: the step size with which the descent of g ended.
    """

    f: float
    q: float
    sigma: float
    v: Tensor
    theta: Tensor
    alpha: float


class Units(NamedTuple):
    """The sizes of things, by which nothing depends on the units of f, g and θ.

    Attributes:
        f: of values of f.
        slope: ‖∇_θ f‖∞.
        sigma: ‖∇_θ f‖ / ‖∇_θ g‖, in which σ is counted.
        reach: how far θ may go.
    """

    f: float = 1.0
    slope: float = 1.0
    sigma: float = 1.0
    reach: float = 1.0


class Value(NamedTuple):
    """ψ at a v: its minimisers, and what to remember.

    Attributes:
        place: v, ψ, ∇ψ and the `Point`; ψ = ∞ where no θ is feasible.
        memory: for the next v.
        z: the distinct minimisers of g that were found, lowest first.
        y: those of f + σ g.
    """

    place: Place
    memory: Memory
    z: Sequence[Minimiser]
    y: Sequence[Minimiser]


@dataclass(frozen=True)
class ValueFunction:
    """ψ_σ of a problem."""

    losses: Losses
    sets: Sets
    units: Units

    def at(self, v: Tensor, hint: Tensor, sigma: float, memory: Memory, starts: Sequence[Tensor] = ()) -> Value:
        """ψ_σ(v).

        Args:
            v: where; its shadow is taken.
            hint: a θ that may be feasible there.
            sigma: σ.
            memory: what was found at the last v.
            starts: where g is descended from beside; by default the scattered point whose turn it is.
        """
        with self.losses.meter.on("shadow"):
            shadow = self.sets.shadow(v, hint)
        v, hint = shadow.v, shadow.theta
        nowhere = Value(Place(v, math.inf, torch.zeros_like(v)), memory, (), ())
        if shadow.over > TOLERATED:
            return nowhere
        turn = memory.turn + (not starts)
        if not starts and memory.scatter:
            starts = (memory.scatter[turn % len(memory.scatter)],)
        zs = self.distinct(self.lower(v, (*memory.z, *map(Start, starts)), sigma), KEPT_Z)
        zs = zs or self.distinct(self.lower(v, (Start(hint),), sigma), KEPT_Z)
        lowest = tuple(Start(z.start.theta) for z in zs[:2] if turn % 3 == 0 or self._new(z, memory))
        ys = self.distinct(self.upper(v, (*memory.y, *lowest), sigma), KEPT_Y) if zs else []
        ys = ys or self.distinct(self.upper(v, (Start(hint),), sigma), KEPT_Y)
        if not zs or not ys:
            return nowhere
        if ys[0].sum.g < zs[0].value - 1e-9 * max(1.0, abs(zs[0].value)):
            zs = self.distinct((*zs, *self.lower(v, (Start(ys[0].start.theta),), sigma)), KEPT_Z)
        z, y = zs[0], ys[0]
        q = y.sum.g - z.value
        point = Point(y.sum.f, q, sigma, v, y.start.theta, z.start.s)
        here = Place(v, y.sum.f + sigma * q, y.grad_v - sigma * z.grad_v, known=point)
        kept = Memory(tuple(z.start for z in zs), tuple(y.start for y in ys), memory.scatter, turn)
        return Value(here, kept, zs, ys)

    def lower(self, v: Tensor, starts: Iterable[Start], sigma: float) -> list[Minimiser]:
        """Line 1: local minimisers of g."""
        rules = self._rules(1.0 / max(self.units.sigma, sigma))
        with self.losses.meter.on("inner"):
            if (solver := self.losses.inner) is not None:
                first = next(iter(starts))
                starts, rules = (Start(self.losses.solved(solver, v, first.theta)),), replace(rules, steps=0)
            return [self._minimiser(0.0, 1.0, v, start, "inner", rules) for start in starts]

    def upper(self, v: Tensor, starts: Iterable[Start], sigma: float, a: float = 1.0) -> list[Minimiser]:
        """Line 2: local minimisers of a f + σ g."""
        rules = self._rules(1.0)
        with self.losses.meter.on("outer"):
            found = [self._minimiser(a, sigma, v, start._replace(s=start.s / sigma), "both", rules) for start in starts]
        return [y._replace(start=y.start._replace(s=sigma * y.start.s)) for y in found]

    def _rules(self, unit: float) -> Rules:
        """When a descent ends, in units of f."""
        return Rules(STEPS, TOLERANCE * self.units.slope * unit, GAIN * self.units.f * unit)

    def _minimiser(self, a: float, b: float, v: Tensor, start: Start, level: Level, rules: Rules) -> Minimiser:
        """A descent of a f + b g in θ."""

        def look(theta: Tensor) -> Place:
            return place(theta, self.losses.weighted(a, b, v, theta, level), self.losses.precision.allowed(v, theta))

        first = look(start.theta)
        if not (math.isfinite(first.value) and torch.isfinite(first.grad).all() and np.isfinite(first.known.c).all()):
            return Minimiser(math.inf, start, first.known, first.known.v, math.inf, first.over)
        steep = float(first.grad.abs().max())
        s = start.s or (0.1 * self.units.reach / steep if steep > 0 else 1.0)
        region = self.sets.inside(v, level)
        descent = descend(first, region, rules, s, self.units.reach, look)
        here, heading = descent.best
        return Minimiser(
            value=here.value,
            start=Start(here.x, descent.s),
            sum=here.known,
            grad_v=here.known.v + self.sets.pull(heading),
            over=here.over.max(initial=0.0),
            multipliers=heading.multipliers,
        )

    def distinct(self, found: Iterable[Minimiser], most: int) -> list[Minimiser]:
        """The lowest ones that are apart from each other; what stays violated does not count."""
        chosen: list[Minimiser] = []
        for each in sorted((each for each in found if each.over <= TOLERATED), key=lambda each: each.value):
            if len(chosen) < most and all(self._apart(each, other) for other in chosen):
                chosen.append(each)
        return chosen

    def _new(self, z: Minimiser, memory: Memory) -> bool:
        """Whether no minimiser of g was near at the last v."""
        reach = APART * 10 * self.units.reach
        return all(bool((z.start.theta - old.theta).abs().max() > reach) for old in memory.z)

    def _apart(self, one: Minimiser, other: Minimiser) -> bool:
        return bool((one.start.theta - other.start.theta).abs().max() > APART * self.units.reach)
