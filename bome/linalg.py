"""Linear systems Hz = b given by products alone."""

from collections.abc import Callable

import torch

from bome._typing import Leaves
from bome.trees import add, axpy, dot, scale, sub, zeros_like

Product = Callable[[Leaves], Leaves]


def conjugate_gradients(product: Product, b: Leaves, steps: int, tolerance: float = 1e-10) -> Leaves:
    """z with Hz ≈ b for symmetric positive definite H, from z = 0.

    The iterate is stored before the residual is tested, so the one that met the tolerance is the one returned. Steps
    after that change nothing, which keeps the number of products fixed and needs no look at the device.
    """
    z, r = zeros_like(b), b
    p, rr = r, dot(r, r)
    for _ in range(steps):
        hp = product(p)
        curvature = dot(p, hp)
        go = (rr > tolerance**2) & (curvature > 0)
        alpha = torch.where(go, rr / torch.where(go, curvature, 1.0), 0.0)
        z, r = axpy(alpha, p, z), axpy(-alpha, hp, r)
        new = dot(r, r)
        beta = torch.where(go, new / torch.where(go, rr, 1.0), 0.0)
        p, rr = axpy(beta, p, r), new
    return z


def neumann(product: Product, b: Leaves, eta: float, terms: int) -> Leaves:
    """z = η Σ_{q=0}^{Q} (I − ηH)^q b, which tends to H⁻¹b for η < 2/L; Q = `terms` products."""
    u, total = b, b
    for _ in range(terms):
        u = sub(u, scale(eta, product(u)))
        total = add(total, u)
    return scale(eta, total)
