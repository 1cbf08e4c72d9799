"""A method of your own: a frozen dataclass with a pure step. Here: BOME with a constant multiplier λ."""

from dataclasses import dataclass

import torch
from torch import Tensor

import bome
from bome.methods import Batches, Info, InnerMap, Method, Metric, Oracle, Pair, State, Step, axpy, sub


@dataclass(frozen=True)
class ConstantMultiplier(Method):
    """(v, θ) ← (v, θ) − ξ (∇f + λ ∇q̂) with a fixed λ.

    Attributes:
        inner: the look-ahead.
        lam: λ.
    """

    inner: InnerMap
    lam: float = 3.0

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One outer step."""
        v, theta = point
        g = oracle.inner(v, theta, batches.inner[0])
        ahead = oracle.look_ahead(v, theta, g, self.inner, batches.inner)
        dq = Pair(sub(g.grad.v, ahead.grad.v), g.grad.theta)
        f = oracle.outer(v, theta, batches.outer[0])
        lam = torch.full_like(f.value, self.lam, dtype=torch.float64)
        delta = Pair(axpy(lam, dq.v, f.grad.v), axpy(lam, dq.theta, f.grad.theta))
        return Step(delta, state, Info(f.value, g.value, g.value - ahead.value, lam))


def inner(v: Tensor, theta: Tensor, batch: None) -> Tensor:
    """g: θ follows v."""
    return (theta - v).square().sum()


def outer(v: Tensor, theta: Tensor, batch: None) -> Tensor:
    """f: θ should be 1, at little cost of v."""
    return (theta - 1).square().sum() + 0.1 * v.square().sum()


v, theta = torch.zeros(2), torch.zeros(2)
problem = bome.Problem(outer, inner, v, theta)
method = ConstantMultiplier(bome.GradientDescent(lr=0.3, steps=5))
opts = torch.optim.SGD([v], lr=0.05), torch.optim.SGD([theta], lr=0.05)
bome.run(problem, method, outer_opt=opts[0], inner_opt=opts[1], stop=bome.MaxSteps(300))
print(f"v = {v.tolist()}, θ = {theta.tolist()}; the solution is 1 / 1.1 = {1 / 1.1:.4f}")
