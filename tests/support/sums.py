"""The estimates of stochastic methods on a finite sum of quadratics, transcribed into NumPy by hand."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bome import Batches
from bome.methods.base import Method
from tests.support.problems import FiniteSum

Array = np.ndarray[Any, np.dtype[np.float64]]
Quadratic = tuple[Array, Array, Array, Array]
"""H, A, a, b of g = ½(θ−Av)ᵀH(θ−Av), f = ½‖θ−a‖² + ½‖v−b‖²."""


def batches_of(sums: FiniteSum, method: Method, rng: np.random.Generator) -> Batches:
    """Random terms of the sum, as many as a step takes."""
    count = len(sums.H)
    inner = tuple(sums.inner(int(i)) for i in rng.integers(count, size=method.inner_batches))
    outer = tuple(sums.inner(int(i)) for i in rng.integers(count, size=method.outer_batches))
    return Batches(inner=inner, outer=outer)


def in_numpy(batches: Sequence[Any]) -> list[Quadratic]:
    return [tuple(x.numpy() for x in batch) for batch in batches]


def g_theta(v: Array, theta: Array, batch: Quadratic) -> Array:
    """H(θ − Av)."""
    h, matrix, _, _ = batch
    return h @ (theta - matrix @ v)


def estimate(
    v: Array,
    theta: Array,
    hessians: Sequence[Quadratic],
    cross: Quadratic,
    outer: Quadratic,
    eta: float,
    published: bool = False,
) -> Array:
    """f_v − Bz with B = −AᵀH; z = η Σ_{q=0}^{Q} u_q, or as coded η u_Q + Σ_{q=1}^{Q} u_q."""
    u = [theta - outer[2]]
    for batch in hessians:
        u.append(u[-1] - eta * batch[0] @ u[-1])
    z = eta * u[-1] + sum(u[1:]) if published else eta * sum(u)
    h, matrix, _, _ = cross
    result: Array = v - outer[3] + matrix.T @ h @ z
    return result
