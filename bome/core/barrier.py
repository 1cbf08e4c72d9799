r"""The dynamic barrier: how strongly a step must decrease q̂, and the multiplier λ that achieves it.

BOME's direction δ solves a quadratic problem with one constraint,

    min_δ ‖∇f − δ‖²   subject to   ⟨∇q̂, δ⟩ ≥ φ,

whose solution is δ = ∇f + λ∇q̂ with

    λ = max( (φ − ⟨∇f, ∇q̂⟩) / ‖∇q̂‖² , 0 ),      and λ = 0 where ∇q̂ = 0.

Nothing is added to the denominator: with `+1e-8` a third of the cases with small gradients break the constraint.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from bome.core.trees import Pair, products

Phi = Literal["norm", "gap"]
"""Names of the barriers: "norm" is φ = η‖∇q̂‖² (the paper's default), "gap" is φ = η q̂."""


class Metric(NamedTuple):
    """The current step size of each leaf."""

    v: tuple[float, ...]
    theta: tuple[float, ...]


class Products(NamedTuple):
    """The three inner products of ∇f and ∇q̂ from which λ, the angle and the stationarity measure follow."""

    ff: Tensor  # ‖∇f‖²
    fq: Tensor  # ⟨∇f, ∇q̂⟩
    qq: Tensor  # ‖∇q̂‖²


def euclidean(df: Pair, dq: Pair) -> Products:
    """Plain inner products over the concatenated (v, θ)."""
    return Products(*products(df.v + df.theta, dq.v + dq.theta))


def weighted(df: Pair, dq: Pair, metric: Metric) -> Products:
    """Inner products ⟨·, S·⟩ with S the step size of each leaf relative to the largest step size of θ.

    The step taken is −Sδ, so ⟨∇q̂, Sδ⟩ ≥ φ is the decrease of q̂ that really happens. With equal step sizes everywhere
    S is the identity and the products are the Euclidean ones. A schedule may begin or end with step sizes of 0: where θ
    does not move, those of v are relative to their own largest.
    """
    weights = relative(metric)
    return Products(*products(df.v + df.theta, dq.v + dq.theta, weights.v + weights.theta))


def relative(metric: Metric) -> Metric:
    """The step sizes relative to the largest one of θ; where θ does not move, to the largest one of v."""
    unit = max(metric.theta) or max(metric.v, default=0.0) or 1.0
    return Metric(tuple(s / unit for s in metric.v), tuple(s / unit for s in metric.theta))


def barrier(kind: Phi, eta: float, products: Products, q: Tensor, eps: float = 0.0) -> Tensor:
    """φ: η‖∇q̂‖² or η q̂; a negative q̂ (the inner loop diverged) counts as 0.

    With the `eps` of the authors φ = η(‖∇q̂‖² + ε), so that λ = max(η − ⟨∇f, ∇q̂⟩/(‖∇q̂‖² + ε), 0) as they have it.
    """
    return eta * (products.qq + eps) if kind == "norm" else eta * q.clamp(min=0).double()


def multiplier(products: Products, phi: Tensor, eps: float = 0.0) -> Tensor:
    """λ ≥ 0 in float64. `eps` exists for the authors' published numbers only; leave it at 0."""
    some = products.qq + eps > 0
    safe = torch.where(some, products.qq + eps, 1.0)  # no 0/0 even where the result is masked
    return torch.where(some, ((phi - products.fq) / safe).clamp(min=0), 0.0)


def kkt_gradient(products: Products) -> Tensor:
    """min_{λ≥0} ‖∇f + λ∇q̂‖², the gradient part of the stationarity measure 𝒦, in closed form."""
    lam = multiplier(products, torch.zeros_like(products.fq))
    return (products.ff + lam * products.fq).clamp(min=0)  # as λ‖∇q̂‖² = −⟨∇f, ∇q̂⟩ where λ > 0
