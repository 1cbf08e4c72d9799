"""Linear systems Hz = b given by products alone: what implicit methods solve."""

from collections.abc import Callable, Iterator

import torch

from bome._typing import Leaves
from bome.core.trees import add, axpy, dot, scale, zeros_like

Product = Callable[[Leaves], Leaves]
"""z ↦ Hz."""


def conjugate_gradients(product: Product, b: Leaves, steps: int, tolerance: float = 1e-10) -> Leaves:
    """z with Hz ≈ b for symmetric positive definite H, from z = 0 by `steps` products.

    The iterate is stored before the residual is tested, so the one that met the tolerance on ‖b − Hz‖ is the one
    returned. Steps after that change nothing, nor do steps after a direction p without positive curvature (up to
    rounding: pᵀHp ≤ 8 eps ‖p‖‖Hp‖, as where H is singular). This keeps the number of products fixed and needs no look
    at the device.
    """
    eps = max(torch.finfo(x.dtype).eps for x in b)
    z, r = zeros_like(b), b
    p, rr = r, dot(r, r)
    go = rr > 0
    for _ in range(steps):
        hp = product(p)
        curvature = dot(p, hp)
        go = go & (rr > tolerance**2) & (curvature > 8 * eps * (dot(p, p) * dot(hp, hp)).sqrt())
        alpha = torch.where(go, rr / torch.where(go, curvature, 1.0), 0.0)
        z, r = axpy(alpha, p, z), axpy(-alpha, hp, r)
        new = dot(r, r)
        beta = torch.where(go, new / torch.where(go, rr, 1.0), 0.0)
        p, rr = axpy(beta, p, r), new
    return z


def neumann(product: Product, b: Leaves, eta: float, terms: int) -> Leaves:
    """z = η Σ_{q=0}^{Q} u_q,   u_0 = b,   u_q = (I − ηH) u_{q−1},   by Q = `terms` products.

    This is η Σ_{q=0}^{Q} (I − ηH)^q b, which tends to H⁻¹b for η < 2/L. H may be another one (that of another batch) in
    every call of `product`.
    """
    total = b
    for u in _powers(product, b, eta, terms):
        total = add(total, u)
    return scale(eta, total)


def neumann_published(product: Product, b: Leaves, eta: float, terms: int) -> Leaves:
    """z = η u_Q + Σ_{q=1}^{Q} u_q, as stocBiO's code has it: about 1/η times `neumann`, and without its first term."""
    last, total = b, zeros_like(b)
    for u in _powers(product, b, eta, terms):
        last, total = u, add(total, u)
    return axpy(eta, last, total)


def _powers(product: Product, b: Leaves, eta: float, terms: int) -> Iterator[Leaves]:
    """u_1 .. u_Q."""
    u = b
    for _ in range(terms):
        u = axpy(-eta, product(u), u)
        yield u
