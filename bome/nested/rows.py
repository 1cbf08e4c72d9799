"""Constraints as rows of c(v, θ) ≤ 0, linearised: rows of the Jacobian are kept for as long as they tell the truth.

    Rows:  the Jacobian of c is computed once; a row again only where a value contradicts c_i(x') + ∇c_i·(x − x'), and
           only if the row may matter
    Step:  d and λ ≥ 0 of   min_d |d|²/2s + ⟨grad, d⟩   subject to   c + J d ≤ 0,
           by its dual, a least-squares problem with λ ≥ 0 on the Gram matrix of the rows

So affine constraints cost one Jacobian in a whole search.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from bome._typing import Array
from bome.constraints import Sizes

TRUTH = 1e-9
"""How far a value may be from its affine prediction."""
RIDGE = 1e-10
"""Added to the Gram matrix of the rows, which may depend on each other."""
REFINEMENTS = 3
"""Proximal steps that take away the error of the ridge."""


class Kept(NamedTuple):
    """Rows of the Jacobian, and where they were computed.

    Attributes:
        jacobian: the rows.
        at: the point where each was computed.
        value: c there; NaN where there is no row yet.
    """

    jacobian: Array
    at: Array
    value: Array

    @classmethod
    def none(cls, rows: int, columns: int) -> "Kept":
        """No row is known."""
        return cls(np.zeros((rows, columns)), np.zeros((rows, columns)), np.full(rows, np.nan))

    def wrong(self, x: Array, c: Array) -> Array:
        """Which of the first rows contradict the values c at x, or are not known."""
        k = len(c)
        predicted = self.value[:k] + ((x - self.at[:k]) * self.jacobian[:k]).sum(1)
        right: Array = np.abs(predicted - c) <= TRUTH * np.maximum(1.0, np.abs(c))
        return ~right

    def renewed(self, numbers: Array, rows: Array, x: Array, c: Array) -> "Kept":
        """With some rows as they are at x."""
        jacobian, at, value = self.jacobian.copy(), self.at.copy(), self.value.copy()
        jacobian[numbers], at[numbers], value[numbers] = rows, x, c[numbers]
        return Kept(jacobian, at, value)


class Signs(NamedTuple):
    """How c ≤ 0 is made of the constraints as they are given: an equality e = 0 is e ≤ 0 and −e ≤ 0.

    Attributes:
        number: of the constraint that an entry is made of.
        sign: 1 or −1.
        inner: how many entries, the first ones, belong to the inner problem.
        sizes: how many constraints there are of each kind.
    """

    number: Array
    sign: Array
    inner: int
    sizes: Sizes

    @classmethod
    def of(cls, sizes: Sizes) -> "Signs":
        """From how many there are of each kind."""
        numbers, signs, first = [], [], 0
        for size, equal in zip(sizes, (False, True, False, True), strict=True):
            each = np.arange(first, first + size)
            numbers += [each, each] if equal else [each]
            signs += [np.ones(size), -np.ones(size)] if equal else [np.ones(size)]
            first += size
        inner = sizes.inner_constraints + 2 * sizes.inner_equalities
        return cls(np.concatenate(numbers), np.concatenate(signs), inner, sizes)


def projected(grad: Array, rows: Array, room: Array, s: float) -> tuple[Array, Array]:
    """d and λ of the step: c + J d ≤ 0 where the rows are J and the room is −c."""
    multipliers, sizes = np.zeros(len(room)), np.linalg.norm(rows, axis=1)
    used = sizes > TRUTH * max(1.0, sizes.max(initial=0.0))
    if not used.any():
        return -s * grad, multipliers
    rows, room, sizes = rows[used] / sizes[used, None], room[used] / sizes[used], sizes[used]
    gram = rows @ rows.T
    gram[np.diag_indices(len(gram))] += RIDGE
    factor = np.linalg.cholesky(gram)
    lack, found, d = rows @ grad + room / s, np.zeros(len(room)), -s * grad
    for _ in range(1 + REFINEMENTS):
        found = _least(factor, np.linalg.solve(factor, RIDGE * found - lack))
        d = -s * (grad + rows.T @ found)
        if (rows @ d - room).max() <= 1e-11 * max(1.0, np.abs(room).max()):
            break
    multipliers[used] = found / sizes
    return d, multipliers


def _least(factor: Array, right: Array) -> Array:
    """λ ≥ 0 of the least |factorᵀ λ − right|."""
    try:
        found: Array = nnls(factor.T, right, maxiter=50 * len(right))[0]
    except RuntimeError:  # a cycle among rows that nearly depend on each other
        found = np.maximum(np.linalg.solve(factor.T, right), 0.0)
    return found
