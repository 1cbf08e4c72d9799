r"""BSG-1: rank-one surrogates of the second derivatives (Giovannelli, Kent, Vicente; 2021).

    for k = 0, 1, ...
        1:  θ_{t+1} = θ_t − α ∇_θ g(v_k, θ_t; S_t),   t = 0 .. T−1,   θ_0 = θ_k
        2:  H ≈ g_θ g_θᵀ,   B ≈ g_v g_θᵀ   at (v_k, θ_T), so that with the pseudo-inverse of the former
            h = f_v − B H⁻¹ f_θ ≈ f_v − (⟨f_θ, g_θ⟩ / ‖g_θ‖²) g_v
        3:  v_{k+1} = v_k − ξ_v h,   θ_{k+1} = θ_T

| symbol | here | symbol | here |
|---|---|---|---|
| α, T | `inner.lr`, `inner.steps` | S_0 .. S_{T−1} | `batches.inner[:T]` |
| ⟨f_θ, g_θ⟩ / ‖g_θ‖² | `ratio` | batch of line 2 | `batches.inner[T]`, `batches.outer[0]` |

A step takes T + 1 independent inner batches and 1 outer one. Cost per step: T + 1 evaluations of g and 1 of f; no
second-order products. State: none.

When to use it: as a baseline. Where the inner problem is solved well, g_θ → 0 and the ratio is that of two vanishing
numbers; where f = −g the direction is exactly 0, so v never moves.

Where published code differs: ε is added to ‖g_θ‖² (variant `published`; 1e-50 on coreset and minimax, 1e-8 on LLS, 1e-4
in the hyper-parameter tasks), where we take the ratio as 0 if g_θ = 0; g is evaluated twice in line 2; the momentum of
the inner steps persists over outer steps, here it starts afresh.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from bome._checks import check_positive
from bome._typing import State
from bome.core.barrier import Metric
from bome.core.trees import Pair, axpy, dot
from bome.inner import InnerMap, check_inner
from bome.methods.base import Batches, Info, Method, Step
from bome.oracles.base import Oracle


@dataclass(frozen=True)
class BSG1(Method):
    """Bilevel stochastic gradient with rank-one second derivatives.

    Attributes:
        inner: the inner map and T; each inner step has a batch of its own.
        eps: added to ‖g_θ‖² as the authors of the BOME paper do; 0 is right.
    """

    inner: InnerMap
    eps: float = 0.0

    name: ClassVar[str] = "bsg1"
    moves_theta: ClassVar[bool] = False
    bias: ClassVar[str] = "second derivatives are replaced by rank-one matrices"
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {"published": {"eps": 1e-8}}

    def __post_init__(self) -> None:
        check_inner(self.inner)
        if self.eps != 0:
            check_positive("eps", self.eps)

    @property
    def inner_batches(self) -> int:
        """One for each inner step and one for the direction."""
        return self.inner.steps + 1

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One outer step."""
        v, theta = point
        theta_T = oracle.descend(v, theta, self.inner, batches.inner[:-1])  # line 1  # noqa: N806
        g = oracle.inner(v, theta_T, batches.inner[-1])  # line 2
        f = oracle.outer(v, theta_T, batches.outer[0])
        norm = dot(g.grad.theta, g.grad.theta) + self.eps
        ratio = torch.where(norm > 0, dot(f.grad.theta, g.grad.theta) / torch.where(norm > 0, norm, 1.0), 0.0)
        h = axpy(-ratio, g.grad.v, f.grad.v)
        return Step(Pair(h, ()), state, Info(f.value, g.value), new_theta=theta_T)  # line 3
