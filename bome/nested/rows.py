"""Constraints as rows of c(v, θ) ≤ 0, linearised: rows of the Jacobian are kept for as long as they tell the truth.

    Rows:  the Jacobian of c is computed once; a row again only where a value contradicts c_i(x') + ∇c_i·(x − x'), and
           only if the row may matter
    Step:  d and λ ≥ 0 of   min_d |d|²/2s + ⟨grad, d⟩   subject to   c + J d ≤ 0,
           by the small problem of `core.multipliers`

So affine constraints cost one Jacobian in a whole search.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bome._typing import Array
from bome.constraints import Sizes
from bome.core.multipliers import multipliers
from bome.projections import Rows


class Precision(NamedTuple):
    """What counts as equal, for numbers of some dtype.

    Attributes:
        truth: how far a value may be from its affine prediction.
        feasible: the violation that counts as none, where no entry of v or θ is larger than 1.
        margin: how far inside of its linearised constraints a point is sought.
    """

    truth: float
    feasible: float
    margin: float

    @classmethod
    def of(cls, dtype: torch.dtype) -> "Precision":
        """10⁻⁹, and 10⁻⁷ for the margin; coarser for float32."""
        eps = torch.finfo(dtype).eps
        return cls(max(1e-9, 32 * eps), max(1e-9, 8 * eps), max(1e-7, 16 * eps))

    def allowed(self, *parts: Tensor) -> float:
        """The violation that counts as none at a point, relative to its largest entry."""
        return self.feasible * max(1.0, *(float(part.abs().max()) for part in parts))


class Kept(NamedTuple):
    """Rows of the Jacobian of c, and where they were computed.

    Attributes:
        jacobian: the rows.
        at: the point where each was computed.
        value: c there; NaN where there is no row yet.
    """

    jacobian: Array
    at: Array
    value: Array

    def predicted(self, x: Array, k: int) -> Array:
        """The first k entries of c at x, if they were affine."""
        predicted: Array = self.value[:k] + ((x - self.at[:k]) * self.jacobian[:k]).sum(1)
        return predicted

    def renewed(self, places: Array, rows: Array, x: Array, c: Array) -> "Kept":
        """With some rows as they are at x."""
        jacobian, at, value = self.jacobian.copy(), self.at.copy(), self.value.copy()
        jacobian[places], at[places], value[places] = rows, x, c
        return Kept(jacobian, at, value)


class Layout(NamedTuple):
    """How c ≤ 0 is made: an equality e = 0 is e ≤ 0 and −e ≤ 0; sets are rows that are known from the beginning.

    Attributes:
        number: of the constraint that an entry is made of, as oracles count them; −1 for a row of a set.
        sign: 1 or −1.
        inner: how many entries, the first ones, belong to the inner problem.
        sizes: how many constraints there are of each kind.
    """

    number: Array
    sign: Array
    inner: int
    sizes: Sizes


def arranged(sizes: Sizes, set_v: Rows, set_theta: Rows) -> tuple[Layout, Kept]:
    """How c is made of constraints and sets, and the rows that are known."""
    first = np.cumsum([0, *sizes])
    given = [np.arange(start, start + size) for start, size in zip(first, sizes, strict=False)]
    n, m = set_v.A.shape[1], set_theta.A.shape[1]
    blocks = [_entries(given[0], given[1], n + m), _affine(set_theta, n, 0)]
    inner = sum(len(block[0]) for block in blocks)
    blocks += [_entries(given[2], given[3], n + m), _affine(set_v, 0, m)]
    number, sign, jacobian, value = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return Layout(number, sign, inner, sizes), Kept(jacobian, np.zeros_like(jacobian), value)


def _entries(inequalities: Array, equalities: Array, columns: int) -> Sequence[Array]:
    """Number, sign, row and value of constraints: no row is known."""
    number = np.concatenate([inequalities, equalities, equalities])
    sign = np.concatenate([np.ones(len(inequalities) + len(equalities)), -np.ones(len(equalities))])
    return number, sign, np.zeros((len(number), columns)), np.full(len(number), np.nan)


def _affine(rows: Rows, before: int, after: int) -> Sequence[Array]:
    """Likewise of a set, whose entries stand after and before others; the value is that at 0."""
    matrix = torch.cat([rows.A, rows.E, -rows.E]).cpu().numpy()
    right = torch.cat([rows.b, rows.e, -rows.e]).cpu().numpy()
    jacobian = np.pad(matrix, ((0, 0), (before, after)))
    return np.full(len(matrix), -1), np.ones(len(matrix)), jacobian, -right


def projected(grad: Array, rows: Array, room: Array, s: float) -> tuple[Array, Array]:
    """d and λ of the step: c + J d ≤ 0 where the rows are J and the room is −c."""
    found = multipliers(rows @ rows.T, rows @ grad, room, s)
    return -s * (grad + found @ rows), found
