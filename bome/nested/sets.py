"""Where v and θ may be: sets with projections, or constraints that are linearised again and again.

    Inside:  θ moves by steps that stay in its set: projected, or the d of `rows.projected` on linearised constraints,
             whose λ are the multipliers
    Shadow:  the v nearest to the one wanted for which some θ is feasible, and such a θ: a joint projection of (v, θ)
             onto the linearised constraints, with θ ten times cheaper to move for three rounds, then equal

ψ is asked only at a v that is its own shadow.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from bome._typing import Array
from bome.constraints import Level
from bome.nested.descent import WEIGHT, Heading, Place, Projected, Region, dot
from bome.nested.losses import Losses, Sum
from bome.nested.rows import projected

CHEAP, CHEAP_ROUNDS, ROUNDS = math.sqrt(10.0), 3, 20
"""How much further θ moves than v in a joint projection, for how many rounds, and the most rounds."""
TOLERATED = 1e-5
"""The violation that is still let pass for the time being."""


class Shadow(NamedTuple):
    """A v that may be taken, and a θ that is feasible there.

    Attributes:
        v: the v nearest to the one wanted.
        theta: the θ.
        over: how much stays violated.
    """

    v: Tensor
    theta: Tensor
    over: float


class Sets(Protocol):
    """Where v and θ may be."""

    def inside(self, v: Tensor, level: Level) -> Region:
        """Where θ may go at v: "inner" as far as the inner problem goes, "both" as far as the outer one allows, too."""

    def shadow(self, v: Tensor, theta: Tensor) -> Shadow:
        """The nearest v for which there is a θ."""

    def feasible(self, v: Tensor, theta: Tensor) -> Tensor:
        """A θ near the one given that the inner problem allows at v."""

    def drawn(self, theta: Tensor) -> Tensor:
        """A random θ as the start of a descent."""

    def pull(self, heading: Heading) -> Tensor | float:
        """What the constraints add to the gradient with respect to v: Σ λ ∇_v c."""


@dataclass(frozen=True)
class ByProjection:
    """Sets that do not depend on each other."""

    losses: Losses

    def inside(self, v: Tensor, level: Level) -> Region:
        """The set of θ."""
        return Projected(self.losses.theta.project)

    def shadow(self, v: Tensor, theta: Tensor) -> Shadow:
        """The projection of v."""
        return Shadow(self.losses.v.project(v), theta, 0.0)

    def feasible(self, v: Tensor, theta: Tensor) -> Tensor:
        """The projection of θ."""
        return self.losses.theta.project(theta)

    def drawn(self, theta: Tensor) -> Tensor:
        """Its projection."""
        return self.losses.theta.project(theta)

    def pull(self, heading: Heading) -> Tensor | float:
        """Nothing: the set of θ does not depend on v."""
        return 0.0


@dataclass(frozen=True)
class ByRows:
    """Constraints of v and θ."""

    losses: Losses

    def inside(self, v: Tensor, level: Level) -> Region:
        """The linearised constraints at v."""
        return Linearised(self, v)

    def shadow(self, v: Tensor, theta: Tensor) -> Shadow:
        """Joint projections until all constraints hold."""
        for round in range(ROUNDS + 1):
            c = self.losses.constraints(v, theta)
            over = c.max(initial=0.0)
            if not np.isfinite(c).all():
                return Shadow(v, theta, math.inf)
            if over <= self.losses.precision.allowed(v, theta) or round == ROUNDS:
                break
            units = self.units(1.0, CHEAP if round < CHEAP_ROUNDS else 1.0)
            d, _, _ = self.step(v, theta, c, np.zeros(len(units)), 1.0, units, self.losses.precision.margin)
            dv, dtheta = self.parts(d)
            v, theta = v + dv, theta + dtheta
        return Shadow(v, theta, float(over))

    def feasible(self, v: Tensor, theta: Tensor) -> Tensor:
        """Up to three projections of θ alone."""
        units = self.units(0.0, 1.0)
        for _ in range(3):
            c = self.losses.constraints(v, theta, "inner")
            if not np.isfinite(c).all() or c.max(initial=0.0) <= self.losses.precision.allowed(v, theta):
                break
            d, _, _ = self.step(v, theta, c, np.zeros(len(units)), 1.0, units)
            theta = theta + self.parts(d)[1]
        return theta

    def drawn(self, theta: Tensor) -> Tensor:
        """As it is: the first step inside makes it feasible, and most of them are never used."""
        return theta

    def pull(self, heading: Heading) -> Tensor | float:
        """λ J, its part in v."""
        return self.parts(heading.multipliers @ heading.known)[0]

    def units(self, v: float, theta: float) -> Array:
        """The units in which v and θ move."""
        return np.concatenate([np.full(len(self.losses.v.start), v), np.full(len(self.losses.theta.start), theta)])

    def parts(self, d: Array) -> tuple[Tensor, Tensor]:
        """The parts of a joint vector that belong to v and to θ."""
        v, theta = self.losses.v.start, self.losses.theta.start
        whole = torch.from_numpy(d)
        return whole[: len(v)].to(v), whole[len(v) :].to(theta)

    def step(
        self, v: Tensor, theta: Tensor, c: Array, grad: Array, s: float, units: Array, margin: float = 0.0
    ) -> tuple[Array, Array, Array]:
        """d, λ and the rows; a row that bends is computed again only if it comes near to being active."""
        wanted = c > -1e-6
        while True:
            rows = self.losses.rows(v, theta, c, wanted)
            d, multipliers = projected(grad * units, rows * units, -c - margin, s)
            near = (multipliers > 0) | (c + (rows * units) @ d > 0.1 * c)
            if not (near & ~wanted).any():
                return units * d, multipliers, rows
            wanted = wanted | near


@dataclass(frozen=True)
class Linearised:
    """The constraints of θ at a v, linearised at each place; what is known at a place is its `Sum`."""

    sets: ByRows
    v: Tensor

    def heading(self, place: Place, s: float) -> Heading:
        """The step on the linearised constraints, its multipliers and rows."""
        sets, c = self.sets, place.known.c
        units = sets.units(0.0, 1.0)
        grad = np.concatenate([np.zeros(len(self.v)), place.grad.double().cpu().numpy()])
        d, multipliers, rows = sets.step(self.v, place.x, c, grad, s, units)
        move = sets.parts(d)[1]
        slope = dot(place.grad, move) - WEIGHT * float(multipliers @ place.over)
        return Heading(place.x + move, move, slope, multipliers, rows)

    def change(self, heading: Heading, old: Place, new: Place) -> Tensor:
        """Δ(∇ψ + Σ λ ∇c)."""
        multipliers, rows = heading.multipliers, heading.known
        change = new.grad - old.grad
        if not (multipliers > 0).any():
            return change
        bent = self.sets.losses.rows(self.v, new.x, new.known.c, multipliers > 0) - rows
        return change + self.sets.parts(multipliers @ bent)[1]


def place(x: Tensor, here: Sum, feasible: float) -> Place:
    """A point of a descent in θ, with what is known there; violations up to `feasible` count as none."""
    return Place(x, here.value, here.theta, np.where(here.c > feasible, here.c, 0.0), here)
