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
FAR = 1e3
"""How far out the reach of a set is looked for, in sizes of the point."""
WIDE, NEAR = (0.03, 3.0), (0.003, 0.3)
"""The shares of the reach by which random points lie apart: at the least and at the most."""


class Dice:
    """Random points; equal numbers give equal points, on every machine and in every process."""

    def __init__(self, *numbers: int) -> None:
        self._random = np.random.default_rng(numbers)

    def normal(self, like: Tensor) -> Tensor:
        """A vector of independent normal entries."""
        return torch.from_numpy(self._random.standard_normal(len(like))).to(like)

    def around(self, x: Tensor, reach: float, shares: tuple[float, float] = WIDE) -> Tensor:
        """A point at a distance that is log-uniform between these shares of the reach."""
        low, high = map(math.log, shares)
        return x + reach * math.exp(self._random.uniform(low, high)) * self.normal(x)


class Survey(NamedTuple):
    """What is known before the first run.

    Attributes:
        v: the start, in its set.
        theta: a θ that is feasible there.
        over: what stays violated at the start.
        reach_v: how far v may go.
        units: of everything else.
        kept: the first rows of the Jacobian of the constraints, if there are any.
    """

    v: Tensor
    theta: Tensor
    over: float
    reach_v: float
    units: Units
    kept: Kept | None


def survey(losses: Losses, sets: Sets, seed: int) -> Survey:
    """Look around at the start."""
    dice = Dice(seed, 0)
    with losses.meter.on("survey"):
        v, theta, over = sets.shadow(losses.v.start, losses.theta.start)
        theta = sets.feasible(v, theta)
        reach_v = reach(v, lambda far: sets.shadow(far, theta).v, dice)
        reach_theta = reach(theta, lambda far: sets.feasible(v, far), dice)
        first = _sums(losses, v, theta)
        size_theta = reach_theta or 3 * (_size(theta) or _alike(first, "theta", reach_v or 3 * _size(v)))
        size_v = reach_v or 3 * (_size(v) or _alike(first, "v", size_theta))
        scatter = [sets.feasible(v, dice.around(theta, size_theta)) for _ in range(SCATTER)]
        sums = [first, *(_sums(losses, v, y) for y in scatter)]
    return Survey(v, theta, over, size_v, _units(sums, size_theta), losses.kept if losses.layout is not None else None)


def reach(x: Tensor, project: Callable[[Tensor], Tensor], dice: Dice) -> float:
    """How far a set reaches from x; 0 where it does not end."""
    far, found = FAR * max(1.0, _size(x)), 0.0
    for _ in range(3):
        direction = dice.normal(x)
        for side in (direction, -direction):
            away = _size(project(x + far * side) - x)
            if 1e-6 * far / FAR < away < 0.1 * far:
                found = max(found, away)
    return found


def _sums(losses: Losses, v: Tensor, theta: Tensor) -> tuple[Sum, Sum]:
    return losses.weighted(1.0, 0.0, v, theta), losses.weighted(0.0, 1.0, v, theta)


def _alike(first: tuple[Sum, Sum], which: str, reach: float) -> float:
    """The size of a variable that changes f or g as much as the other does on its reach."""
    shares = []
    for each in first:
        own, other = (each.v, each.theta) if which == "v" else (each.theta, each.v)
        if _norm(own) > 0 and _norm(other) > 0:
            shares.append(_norm(other) / _norm(own))
    return reach / 3 * max(shares) if shares and reach else 1.0


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
