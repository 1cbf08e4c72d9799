"""The multipliers of a step on linear constraints, from the inner products of their rows alone.

    min_d |d|²/2s + ⟨grad, d⟩   subject to   A d ≤ room      has      d = −s (grad + Aᵀλ)

    λ ≥ 0 of the least   ½ λᵀ A Aᵀ λ + ⟨λ, A grad + room/s⟩

It is a least-squares problem with λ ≥ 0 on the Gram matrix A Aᵀ, as small as there are constraints, in float64.
"""

import numpy as np

from bome._typing import Array

RIDGE = 1e-10
"""Added to the Gram matrix of the rows, which may depend on each other."""
REFINEMENTS = 3
"""Proximal steps that take away the error of the ridge."""
NOTHING = 1e-9
"""The size of a row, relative to the largest, that counts as 0."""


def multipliers(gram: Array, slopes: Array, room: Array, s: float) -> Array:
    """λ ≥ 0 of the step; 0 for rows that are 0, NaN where a number is not finite.

    Args:
        gram: A Aᵀ, the inner products of the rows.
        slopes: A grad.
        room: how much each row leaves for A d; negative where the constraint is violated.
        s: the size of the step.
    """
    if not all(np.isfinite(numbers).all() for numbers in (gram, slopes, room)):
        return np.full(len(room), np.nan)
    found, sizes = np.zeros(len(room)), np.sqrt(np.maximum(np.diag(gram), 0.0))
    used = sizes > NOTHING * sizes.max(initial=0.0)
    if not used.any():
        return found
    sizes = sizes[used]
    gram, slopes, room = gram[np.ix_(used, used)] / np.outer(sizes, sizes), slopes[used] / sizes, room[used] / sizes
    factor = np.linalg.cholesky(gram + RIDGE * np.eye(len(gram)))
    lack, lam = slopes + room / s, np.zeros(len(room))
    for _ in range(1 + REFINEMENTS):
        lam = _least(factor, np.linalg.solve(factor, RIDGE * lam - lack))
        if (-s * (gram @ lam + lack)).max() <= 1e-11 * max(1.0, np.abs(room).max()):
            break
    found[used] = lam / sizes
    return found


def _least(factor: Array, right: Array) -> Array:
    """λ ≥ 0 of the least |factorᵀ λ − right|."""
    from scipy.optimize import nnls  # slow to import, and of use to few

    try:
        found: Array = nnls(factor.T, right, maxiter=50 * len(right))[0]
    except RuntimeError:  # a cycle among rows that nearly depend on each other
        found = np.maximum(np.linalg.solve(factor.T, right), 0.0)
    return found
