"""The stationarity measure of the paper, estimated and exact."""

from dataclasses import dataclass

import torch

from bome._typing import Leaves
from bome.core.barrier import Metric, euclidean, kkt_gradient, multiplier
from bome.core.bounded import Bounded
from bome.core.trees import Pair, sub
from bome.oracles import Oracle
from bome.oracles.base import Eval
from bome.problem import Batches, Problem


@dataclass(frozen=True)
class Stationarity:
    """𝒦 = min_{λ≥0} ‖∇f + λ∇q‖² + q at one point, with q measured from some end point of the inner problem.

    Of ∇f + λ∇q only what projections leave counts (`core.bounded`).

    Attributes:
        kkt: 𝒦.
        gradient: its first part.
        q: its second part.
        f_norm: ‖∇f‖, the scale to judge the first part by; of what projections leave of ∇f.
        cos: the cosine between ∇f and ∇q; −1 where the two losses oppose each other.
        lam: the λ of the minimum.
    """

    kkt: float
    gradient: float
    q: float
    f_norm: float
    cos: float
    lam: float

    @property
    def left(self) -> float:
        """The share of ‖∇f‖² that the constraint does not balance."""
        return self.gradient / self.f_norm**2 if self.f_norm > 0 else 0.0


def stationarity_at(oracle: Oracle, point: Pair, end: Leaves, batches: Batches) -> Stationarity:
    """𝒦 with q(v, θ) = g(v, θ) − g(v, end): exact where `end` is the inner solution."""
    v, theta = point
    g = oracle.inner(v, theta, batches.inner[0])
    g_end = oracle.inner(v, end, batches.inner[0], wrt="v")
    f = oracle.outer(v, theta, batches.outer[0])
    return stationarity(oracle.problem, point, f, g, g_end)


def stationarity(
    problem: Problem, point: Pair, f: Eval, g: Eval, g_end: Eval, metric: Metric | None = None
) -> Stationarity:
    """𝒦 from f and g at the point, and g at the end point; of steps in a metric, where projections cut them short."""
    dq, q = Pair(sub(g.grad.v, g_end.grad.v), g.grad.theta), float(g.value - g_end.value)
    products = euclidean(f.grad, dq)
    sets = problem.project_v, problem.project_theta
    if any(sets):
        left = Bounded(point, f.grad, dq, metric or Metric((1.0,) * len(point.v), (1.0,) * len(point.theta)), sets)
        (lam, rest), size = left.balance(), left.of_f.square
    else:
        lam, rest, size = multiplier(products, torch.zeros_like(products.fq)), kkt_gradient(products), products.ff
    gradient = float(rest)
    norms = float((products.ff * products.qq).sqrt())
    cos = float(products.fq) / norms if norms > 0 else 0.0
    return Stationarity(gradient + q, gradient, q, float(size.sqrt()), cos, float(lam))
