"""What the value of a solution depends on: which inner minimiser is taken, and where the constraints stand.

    Ties:    f over the inner minimisers found: the best θ descends f + σ g, the worst one −f + σ g; both stay where g
             is least, as σ is large
    Prices:  by how much F(v) changes when the right-hand side of c_i ≤ 0 is relaxed by one: −(λ_y − σ λ_z + μ)_i, with
             the multipliers λ_y, λ_z of the two minima in ψ_σ, and μ ≥ 0 those of v: ∇ψ + Σ μ ∇_v c = 0, Σ μ ∇_θ c = 0

An inequality of the outer problem has a price of at most 0; one of the inner problem may have either sign, as more room
for the inner problem may move θ to where f does not want it.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bome._typing import Array
from bome.constraints import Sizes
from bome.nested.sets import ByRows
from bome.nested.value import Point, Start, Value, ValueFunction

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


def prices(sets: ByRows, here: Value, sigma: float) -> dict[str, Tensor]:
    """The price of each constraint, by the name it has in `Problem`; only of kinds that there are."""
    layout = sets.losses.layout
    assert layout is not None  # noqa: S101 - there are constraints
    y, z = here.y[0], here.z[0]
    total = y.multipliers.copy()
    total[: layout.inner] -= sigma * z.multipliers
    total += _of_v(sets, here)
    own = layout.number >= 0
    given = np.zeros(sum(layout.sizes))
    np.add.at(given, layout.number[own], -(layout.sign * total)[own])
    parts = torch.split(torch.from_numpy(given), list(layout.sizes))
    return {name: part for name, part in zip(Sizes._fields, parts, strict=True) if len(part)}


def _of_v(sets: ByRows, here: Value) -> Array:
    """μ: what keeps v from moving along −∇ψ."""
    grad = np.concatenate([here.place.grad.double().cpu().numpy(), np.zeros(len(here.y[0].start.theta))])
    theta = here.y[0].start.theta
    _, multipliers, _ = sets.step(here.place.x, theta, here.y[0].sum.c, grad, 1e-3, sets.units(1.0, 1.0))
    return multipliers
