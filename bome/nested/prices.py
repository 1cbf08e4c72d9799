"""Shadow prices: by how much F(v) changes when the right-hand side of a constraint is relaxed by one.

    At a solution the price of c_i ≤ 0 is −(λ_y − σ λ_z + μ)_i:
        λ_y, λ_z:  multipliers of the two minima in ψ_σ;   μ ≥ 0: those of v, with ∇ψ + Σ μ ∇_v c = 0 and Σ μ ∇_θ c = 0

An inequality of the outer problem has a price of at most 0; one of the inner problem may have either sign, as more room
for the inner problem may move θ to where f does not want it.
"""

import numpy as np
import torch
from torch import Tensor

from bome._typing import Array
from bome.constraints import Sizes
from bome.nested.sets import ByRows
from bome.nested.value import Value


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
