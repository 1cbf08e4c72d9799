"""Before the first run: a start that may be taken, how far v and θ reach, and the units of f and σ.

    Reach:  points far out, on both sides in three random directions, are projected; where a set does not end it
            is 3 times the size of the start, or where that is 0, of what changes the losses as much as the other
            variable does
    Units:  at the start and at 8 scattered θ: f, ‖∇_θ f‖ and ‖∇_θ g‖. σ is counted in the median of ‖∇_θ f‖ / ‖∇_θ g‖

So nothing that follows depends on the units of f, g, v and θ.
"""

import math
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bome.nested.losses import Losses, Sum
from bome.nested.rows import Kept
from bome.nested.sets import Sets
from bome.nested.value import Units

SCATTER = 8
"""Random θ at a time."""
FAR = 1e4
"""How far out the reach of a set is looked for, in sizes of the point."""
WIDE, FURTHER, INSIDE, NEAR = (0.03, 3.0), (0.3, 3.0), (0.1, 1.0), (0.003, 0.3)
"""Shares of the reach between which random points lie: around a start, at some distance from it, around the middle of a
set, around the best point."""


class Dice:
    """Random points; equal numbers give equal points, on every machine and in every process."""

    def __init__(self, *numbers: int) -> None:
        self._random = np.random.default_rng(numbers)

    def normal(self, like: Tensor) -> Tensor:
        """A vector of independent normal entries."""
        return torch.from_numpy(self._random.standard_normal(len(like))).to(like)

    def around(self, x: Tensor, reach: float, shares: tuple[float, float]) -> Tensor:
        """A point at a distance that is log-uniform between these shares of the reach."""
        low, high = map(math.log, shares)
        return x + reach * math.exp(self._random.uniform(low, high)) * self.normal(x)


class Extent(NamedTuple):
    """How far a variable may go.

    Attributes:
        start: where it starts.
        middle: the middle of its set; the start where the set has no end.
        reach: from the start to the far end of the set, or what is taken for it.
        ends: whether the set has an end.
    """

    start: Tensor
    middle: Tensor
    reach: float
    ends: bool

    def random(self, dice: Dice) -> Tensor:
        """A point anywhere in the set; to be projected."""
        return dice.around(self.middle, self.reach, INSIDE if self.ends else FURTHER)

    def scattered(self, dice: Dice) -> list[Tensor]:
        """Some points, half of them close to the start and far from it, half of them in the whole set."""
        close = [dice.around(self.start, self.reach, WIDE) for _ in range(SCATTER - SCATTER // 2)]
        return [*close, *(self.random(dice) for _ in range(SCATTER // 2))]


class Survey(NamedTuple):
    """What is known before the first run.

    Attributes:
        v: where v may go.
        theta: where θ may go; its start is feasible at that of v.
        over: what stays violated at the start.
        units: of everything else.
        kept: the first rows of the Jacobian of the constraints, if there are any.
    """

    v: Extent
    theta: Extent
    over: float
    units: Units
    kept: Kept | None


def survey(losses: Losses, sets: Sets, seed: int) -> Survey:
    """Look around at the start."""
    dice = Dice(seed, 0)
    with losses.meter.on("survey"):
        v, theta, over = sets.shadow(losses.v.start, losses.theta.start)
        theta = sets.feasible(v, theta)
        ends_v = ends(v, lambda far: sets.shadow(far, theta).v, dice)
        ends_theta = ends(theta, lambda far: sets.feasible(v, far), dice)
        first = _sums(losses, v, theta)
        size_v, size_theta = (3 * _size(x) if far is None else far[1] for x, far in ((v, ends_v), (theta, ends_theta)))
        size_theta = size_theta or _alike([first], "theta", size_v)
        extent_theta = Extent(theta, theta if ends_theta is None else ends_theta[0], size_theta, ends_theta is not None)
        scatter = [sets.feasible(v, y) for y in extent_theta.scattered(dice)]
        sums = [first, *(_sums(losses, v, y) for y in scatter)]
        size_v = size_v or _alike(sums, "v", size_theta)
        extent_v = Extent(v, v if ends_v is None else ends_v[0], size_v, ends_v is not None)
    kept = losses.kept if losses.layout is not None else None
    return Survey(extent_v, extent_theta, over, _units(sums, size_theta), kept)


def ends(x: Tensor, project: Callable[[Tensor], Tensor], dice: Dice) -> tuple[Tensor, float] | None:
    """The middle of a set, and how far it reaches from x; None where it does not end."""
    far, found = FAR * max(1.0, _size(x)), []
    for _ in range(3):
        direction = dice.normal(x)
        sides = [project(x + side * far * direction) for side in (1, -1)]
        away = [_size(side - x) for side in sides]
        if max(away) < 0.1 * far:
            found.append((sides, max(away)))
    reach = max((away for _, away in found), default=0.0)
    if reach <= 1e-6 * far / FAR or len(found) < 3:
        return None
    return torch.stack([side for sides, _ in found for side in sides]).mean(0), reach


def _sums(losses: Losses, v: Tensor, theta: Tensor) -> tuple[Sum, Sum]:
    return losses.weighted(1.0, 0.0, v, theta), losses.weighted(0.0, 1.0, v, theta)


def _alike(sums: Sequence[tuple[Sum, Sum]], which: str, reach: float) -> float:
    """The size of a variable that changes f or g as much as the other does on its reach: the median."""
    shares = []
    for losses in sums:
        norms = [(_norm(each.v), _norm(each.theta)) for each in losses]
        pairs = [(own, other) if which == "v" else (other, own) for own, other in norms]
        here = [other / own for own, other in pairs if 0 < own < math.inf and 0 < other < math.inf]
        shares += [max(here)] if here else []
    return reach * median(shares) if shares and reach else 3.0


def _units(sums: Sequence[tuple[Sum, Sum]], reach: float) -> Units:
    """The medians over the points where the losses are finite."""
    sound = [(f, g) for f, g in sums if all(map(math.isfinite, (f.f, g.g, _norm(f.theta), _norm(g.theta))))]
    if not sound:
        return Units(reach=reach)
    values = [f.f for f, _ in sound]
    spread = median([abs(value - values[0]) for value in values[1:]] or [0.0])
    size = max(abs(values[0]), spread) or 1.0
    steep = [(_norm(f.theta), _norm(g.theta)) for f, g in sound]
    tops = [1e-6 * max(each) for each in zip(*steep, strict=True)]
    ratios = [f / g for f, g in steep if f > tops[0] and g > tops[1]]
    slope = median([_size(f.theta) for f, _ in sound])
    return Units(size, slope or size / reach, median(ratios) if ratios else 1.0, reach)


def _size(x: Tensor) -> float:
    return float(x.abs().max())


def _norm(x: Tensor) -> float:
    return float(torch.linalg.vector_norm(x))
