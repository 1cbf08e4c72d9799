"""SPG: descent with steps of Barzilai and Borwein that a set allows, and a search along each that may rise at first.

    for k = 0, 1, ...
        1:  d = P(x − s ∇ψ(x)) − x, shortened to the trust radius;         s: the step size, P: what the set allows
        2:  t = 1; until ψ(x + t d) ≤ max of the last 5 values + 10⁻⁴ t ⟨∇ψ, d⟩:
        3:      t = where a parabola has its minimum; every second time where two tangents meet, as at a kink of ψ
        4:  x = x + t d;  s = ⟨Δx, Δx⟩ / ⟨Δx, Δ∇ψ⟩;  the radius becomes 4 ‖t d‖, if t < 1 or that is more

Where constraints bend, ψ is a merit function: the value and the weighted violations. A descent is a value itself: it is
asked where it wants to look (`trial`), is told what is there (`told`), and what results is the next one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from bome._typing import Array

MEMORY = 5
"""Values looked back at."""
SUFFICIENT = 1e-4
"""The share of the decrease along the tangent that a step must bring."""
WEIGHT = 1.5
"""Of a violation in the merit function, in multipliers."""
TRIES = 15
"""Points tried along one direction."""
LONGEST = 1e6
"""s ‖∇ψ‖ at the most, in trust radii: beyond it, rounding decides where a step ends."""
NONE: Array = np.zeros(0)
"""The violations of no constraints."""


class Place(NamedTuple):
    """A point and what is known there.

    Attributes:
        x: the point.
        value: of ψ; not finite where there is none.
        grad: its gradient.
        over: how much each constraint is violated.
        known: what else whoever evaluates ψ wants to keep with the point.
    """

    x: Tensor
    value: float
    grad: Tensor
    over: Array = NONE
    known: Any = None


class Heading(NamedTuple):
    """A direction from a place.

    Attributes:
        end: a point of the set.
        d: the direction, from the place to that point.
        slope: of the merit function along d.
        multipliers: λ ≥ 0 of the constraints.
        known: what else belongs to the direction.
    """

    end: Tensor
    d: Tensor
    slope: float
    multipliers: Array = NONE
    known: Any = None

    @property
    def weights(self) -> Array:
        """Of the violations in the merit function."""
        return WEIGHT * self.multipliers

    @property
    def size(self) -> float:
        """The largest entry of d."""
        return float(self.d.abs().max())

    @property
    def length(self) -> float:
        """‖d‖."""
        return float(torch.linalg.vector_norm(self.d))


class Region(Protocol):
    """Where a descent may go."""

    def heading(self, place: Place, s: float) -> Heading:
        """The direction of a step of size s."""

    def change(self, heading: Heading, old: Place, new: Place) -> Tensor:
        """How the gradient changed that the next step size is to follow."""


@dataclass(frozen=True)
class Projected:
    """A set with a projection."""

    project: Callable[[Tensor], Tensor]

    def heading(self, place: Place, s: float) -> Heading:
        """d = P(x − s ∇ψ) − x."""
        end = self.project(place.x - s * place.grad)
        d = end - place.x
        return Heading(end, d, dot(place.grad, d))

    def change(self, heading: Heading, old: Place, new: Place) -> Tensor:
        """Δ∇ψ."""
        return new.grad - old.grad


@dataclass(frozen=True)
class Rules:
    """When a descent ends.

    Attributes:
        steps: the most.
        tolerance: ‖d‖∞ / s where a point counts as stationary.
        gain: what the last 3 steps must have brought to go on.
    """

    steps: int
    tolerance: float
    gain: float = 0.0


@dataclass(frozen=True)
class Descent:
    """Where a descent is.

    Attributes:
        place: x_k.
        heading: d.
        best: the place with the lowest merit so far, and its heading.
        past: value and violations at each x so far.
        s: the step size.
        radius: the trust radius.
        t: the part of d that is tried.
        tries: how many were.
        ended: why it ended; None while it goes on.
    """

    place: Place
    heading: Heading
    best: tuple[Place, Heading]
    past: tuple[tuple[float, Array], ...]
    s: float
    radius: float
    t: float = 1.0
    tries: int = 0
    ended: str | None = None

    @property
    def trial(self) -> Tensor:
        """Where the descent wants to look."""
        return self.heading.end if self.t == 1.0 else self.place.x + self.t * self.heading.d

    def told(self, new: Place, region: Region, rules: Rules) -> "Descent":
        """The descent after a look: a step further, or with a shorter one to try."""
        weights, slope = self.heading.weights, self.t * self.heading.slope
        merit = new.value + float(weights @ new.over)
        top = max(value + float(weights @ over) for value, over in self.past[-MEMORY:])
        if math.isfinite(merit) and merit <= top + SUFFICIENT * slope + 1e-14 * abs(top):
            return self._stepped(new, region, rules)
        if self.tries + 1 == TRIES:
            return replace(self, ended="no lower point")
        return replace(self, t=self._shorter(new, merit), tries=self.tries + 1)

    def _shorter(self, new: Place, merit: float) -> float:
        """Line 3."""
        t, slope, here = self.t, self.heading.slope, self.place.value + float(self.heading.weights @ self.place.over)
        rise = merit - here - t * slope
        best = -0.5 * t * t * slope / rise if math.isfinite(merit) and rise > 0 else 0.1 * t
        if self.tries % 2 == 0 or self.place.over.size:
            return min(max(best, 0.1 * t), 0.5 * t)
        if math.isfinite(merit) and (after := dot(new.grad, self.heading.d)) > 0:
            best = (merit - after * t - here) / (slope - after)
        return min(max(best, 0.1 * t), 0.9 * t)

    def _stepped(self, new: Place, region: Region, rules: Rules) -> "Descent":
        """Line 4, and line 1 of the next step."""
        length = self.t * self.heading.length
        radius = max(4 * length, 1e-8 * self.radius) if self.t < 1 else max(self.radius, 4 * length)
        dx, dg = new.x - self.place.x, region.change(self.heading, self.place, new)
        along, square = dot(dx, dg), dot(dx, dx)
        s = square / along if along > 1e-14 * math.sqrt(square * dot(dg, dg)) else 10 * self.s
        past = (*self.past, (new.value, new.over))
        return _headed(new, region, rules, past, s, radius, self.best)


def begin(place: Place, region: Region, rules: Rules, s: float, radius: float) -> Descent:
    """A descent at its start."""
    return _headed(place, region, rules, ((place.value, place.over),), s, radius, None)


def descend(
    start: Place, region: Region, rules: Rules, s: float, radius: float, look: Callable[[Tensor], Place]
) -> Descent:
    """A descent at its end; `look` says what is at a point."""
    descent = begin(start, region, rules, s, radius)
    while descent.ended is None:
        descent = descent.told(look(descent.trial), region, rules)
    return descent


def _headed(
    place: Place,
    region: Region,
    rules: Rules,
    past: tuple[tuple[float, Array], ...],
    s: float,
    radius: float,
    best: tuple[Place, Heading] | None,
) -> Descent:
    """The direction from a place, within the trust radius; and whether the descent ends there."""
    if (steep := float(torch.linalg.vector_norm(place.grad))) > 0:
        s = min(s, LONGEST * radius / steep)
    heading = region.heading(place, s)
    if (length := heading.length) > radius:
        s *= radius / length
        heading = region.heading(place, s)
    weights = heading.weights
    if best is None or place.value + float(weights @ place.over) < best[0].value + float(weights @ best[0].over):
        best = place, heading
    return Descent(place, heading, best, past, s, radius, ended=_end(place, heading, past, s, rules))


def _end(place: Place, heading: Heading, past: tuple[tuple[float, Array], ...], s: float, rules: Rules) -> str | None:
    """Why a descent ends at a place, or None."""
    if not (heading.size > rules.tolerance * s) and not place.over.any():
        return "stationary"
    if not -heading.slope > 1e-15 * abs(place.value):
        return "flat"
    if len(past) > rules.steps:
        return "all steps done"
    values = [value for value, _ in past]
    if rules.gain and not place.over.any() and len(values) > 3 and min(values[:-3]) - min(values[-3:]) <= rules.gain:
        return "no gain"
    return None


def dot(a: Tensor, b: Tensor) -> float:
    """⟨a, b⟩ in float64."""
    return float(torch.dot(a.double(), b.double()))
