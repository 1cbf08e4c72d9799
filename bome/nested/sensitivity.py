"""What the value of a solution depends on: which inner minimiser is taken, and where the constraints stand.

    Ties:    f over the inner minimisers found: the best θ descends f + σ g, the worst one −f + σ g; both stay where g
             is least, as σ is large
    Prices:  by how much F(v) changes when the right-hand side of c_i ≤ 0 is relaxed by one: −(λ_y − σ λ_z + μ)_i, with
             the multipliers λ_y, λ_z of the two minima in ψ_σ, and μ ≥ 0 those of v: ∇ψ + Σ μ ∇_v c = 0, Σ μ ∇_θ c = 0
    Kinks:   where ψ has a kink, no gradient is 0, but a mean Σ t_j ∇ψ_j of those around it is; then λ is the same mean

An inequality of the outer problem has a price of at most 0; one of the inner problem may have either sign, as more room
for the inner problem may move θ to where f does not want it.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from bome._typing import Array
from bome.constraints import Sizes
from bome.nested.sets import TOLERATED, ByRows
from bome.nested.value import Point, Start, Value, ValueFunction

LEVEL = 1e-4
"""How much above its least value g may be, in sizes of f divided by σ."""
CLOSE = 1e-6
"""How far below 0 a constraint may be that still counts as active, relative to the largest."""


class Ties(NamedTuple):
    """f over the inner minimisers found at the solution's v.

    Attributes:
        best: the lowest f: what is reported, as `solve` is optimistic.
        worst: the highest f: what may happen if the inner problem is solved without a look at f.
    """

    best: float
    worst: float


def ties(value: ValueFunction, point: Point, starts: Iterable[Start], sigma: float) -> Ties:
    """Ascend f among the inner minimisers, from each start; the starts count too: a steep f leaves the minimum."""
    size, starts = max(value.units.f, abs(point.f)), tuple(starts)
    risen = [y.sum for y in value.upper(point.v, starts, sigma, a=-1.0) if y.over <= TOLERATED]
    own = [value.losses.weighted(1.0, 1.0, point.v, start.theta) for start in starts]
    found = [y for y in (*risen, *own) if y.c.max(initial=0.0) <= TOLERATED and math.isfinite(y.value)]
    least = value.losses.weighted(0.0, 1.0, point.v, point.theta, "inner").g - max(point.q, 0.0)
    level = least + LEVEL * size / sigma + 2 * max(point.q, 0.0)
    minimal = [y.f for y in found if y.g <= level]
    return Ties(min([point.f, *minimal]), max([point.f, *minimal]))


class Balance(NamedTuple):
    """How far the gradients at some v around a solution, and the constraints there, cancel each other.

    Attributes:
        left: the length of what is left of ∇ψ.
        prices: of the constraints, by the names they have in `Problem`; only of kinds that there are.
    """

    left: float
    prices: dict[str, Tensor]


def balance(sets: ByRows, around: Sequence[Value], sigma: float) -> Balance:
    """t ≥ 0 with Σ t = 1 and μ ≥ 0 of the least ‖Σ t_j ∇ψ_j + Σ μ ∇_v c‖ with Σ μ ∇_θ c = 0, and the prices they give.

    Args:
        sets: the constraints.
        around: ψ at the solution, and at v close by if it has a kink there; the first one has the constraints.
        sigma: σ.
    """
    layout, here = sets.losses.layout, around[0]
    assert layout is not None  # noqa: S101 - there are constraints
    theta, c = here.y[0].start.theta, here.y[0].sum.c
    grads = np.stack([value.place.grad.double().cpu().numpy() for value in around])
    active = c > -CLOSE * max(1.0, np.abs(c).max(initial=0.0))
    rows = sets.losses.rows(here.place.x, theta, c, active)[active]
    one = 1e3 * (max(np.abs(grads).max(), np.abs(rows).max(initial=0.0)) or 1.0)  # so that Σ t = 1 holds
    system = np.block([
        [np.vstack([grads.T, np.zeros((len(theta), len(around)))]), rows.T],
        [np.full((1, len(around)), one), np.zeros((1, len(rows)))],
    ])  # fmt: skip
    right = np.zeros(len(system))
    right[-1] = one
    found = nnls(system, right, maxiter=100 * system.shape[1])[0]
    t, left = found[: len(around)], float(np.linalg.norm((system @ found)[:-1]))
    total = sum(share * _multipliers(value, layout.inner, sigma) for share, value in zip(t, around, strict=True))
    total[active] += found[len(around) :]
    own = layout.number >= 0
    given = np.zeros(sum(layout.sizes))
    np.add.at(given, layout.number[own], -(layout.sign * total)[own])
    parts = torch.split(torch.from_numpy(given), list(layout.sizes))
    return Balance(left, {name: part for name, part in zip(Sizes._fields, parts, strict=True) if len(part)})


def _multipliers(value: Value, inner: int, sigma: float) -> Array:
    """λ_y − σ λ_z."""
    total = value.y[0].multipliers.copy()
    total[:inner] -= sigma * value.z[0].multipliers
    return total
