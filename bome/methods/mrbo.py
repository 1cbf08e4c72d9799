r"""MRBO: momentum-based recursive bilevel optimisation (Yang, Ji, Liang; NeurIPS 2021), Algorithm 1.

    u estimates ∇_θ g, w the hypergradient ĥ (a Neumann series, as in stocBiO)
    for k = 0, 1, ...
        1:  η_k = d / (m + k)^{1/3};   α_k = c1 η_{k−1}²,   β_k = c2 η_{k−1}²,   both at most 1, and 1 for k = 0
        2:  u_k = ∇_θ g(v_k, θ_k; S) + (1 − β_k)(u_{k−1} − ∇_θ g(v_{k−1}, θ_{k−1}; S))
        3:  w_k = ĥ(v_k, θ_k; S) + (1 − α_k)(w_{k−1} − ĥ(v_{k−1}, θ_{k−1}; S))
        4:  θ_{k+1} = θ_k − ξ_θ η_k u_k,   v_{k+1} = v_k − ξ_v η_k w_k

| symbol | here | symbol | here |
|---|---|---|---|
| d, m, c1, c2 | `d`, `m`, `c1`, `c2` | λ, γ of the paper | ξ_θ, ξ_v: the learning rates of the two optimisers |
| η, Q of ĥ | `neumann_lr`, `Q` | S | one outer batch and E inner ones |

S holds the Hessians' batches and that of B, which also serves ∇_θ g: E = Q + 1, or 1 with `draw="one"`. Cost per step:
2E evaluations of g, 2 of f, 2Q Hessian-vector products and 2 cross products. State: u, w, the previous (v, θ), and k.

Where published code differs (variant `published`): `x_old` and `w_old` are aliases of the live tensors, so that the two
gradients of line 2, and of line 3, are equal and each line is an exponential average, u ← βg + (1 − β)u; η_k = 1, and
α = β = 0.9 never change. Its cost is half. ĥ is stocBiO's as coded.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch

from bome._checks import check_choice, check_positive
from bome._typing import State
from bome.core.barrier import Metric
from bome.core.trees import Pair, axpy, clone, number, scale, sub, zeros_like
from bome.errors import ProblemError
from bome.methods.base import Batches, Info, Method, Step, second_order
from bome.methods.free import refuse_other_sets
from bome.methods.stocbio import (
    PUBLISHED,
    Draw,
    Series,
    batches_of_estimate,
    check_estimate,
    estimate,
    refuse_per_sample,
)
from bome.oracles.base import Needs, Oracle
from bome.problem import Problem

Recursion = Literal["storm", "average"]


@dataclass(frozen=True)
class MRBO(Method):
    """Recursive momentum on both gradients.

    Attributes:
        Q: Hessian-vector products of ĥ.
        neumann_lr: η of ĥ; by default `inner_lr`.
        inner_lr: a step size that gradient descent on g would allow.
        d: scale of the step sizes.
        m: offset of their decay; with d³ ≤ m they start below 1.
        c1: scale of α, the share of new information in w.
        c2: scale of β, that in u.
        recursion: "storm" is right; "average" is what the published code comes down to.
        alpha: the constant α of "average".
        beta: the constant β of "average".
        series: of ĥ: "full" is right; "published" is as coded.
        draw: "independent" batches for each Hessian and for B, or "one" for all of them.
    """

    Q: int = 3
    neumann_lr: float | None = None
    inner_lr: float = 0.1
    d: float = 1.0
    m: float = 1.0
    c1: float = 1.0
    c2: float = 1.0
    recursion: Recursion = "storm"
    alpha: float = 0.9
    beta: float = 0.9
    series: Series = "full"
    draw: Draw = "independent"

    name: ClassVar[str] = "mrbo"
    requires: ClassVar[Needs] = Needs.FIRST_ORDER | Needs.HVP
    settles = "solution"
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {"published": {"recursion": "average", **PUBLISHED}}

    def __post_init__(self) -> None:
        check_estimate(self.Q, self.series, self.draw)
        check_choice("recursion", self.recursion, Recursion)
        for name in ("inner_lr", "d", "m", "c1", "c2"):
            check_positive(name, getattr(self, name))
        if self.neumann_lr is not None:
            check_positive("neumann_lr (η)", self.neumann_lr)
        for name in ("alpha", "beta"):
            if not 0 < getattr(self, name) <= 1:
                raise ProblemError(f"{name} must be in (0, 1], got {getattr(self, name)!r}")

    @property
    def inner_batches(self) -> int:
        """Those of the Hessians and of B."""
        return batches_of_estimate(self.Q, self.draw)

    @property
    def cost(self) -> Mapping[str, int]:
        """The evaluations of a step."""
        n = 2 if self.recursion == "storm" else 1
        return {"g": n * self.inner_batches, "f": n, "hvp": n * self.Q, "xvp": n}

    def refusal(self, problem: Problem) -> str | None:
        """The estimate of the hypergradient is of all of v; and it knows which entries of θ are free in a box."""
        return refuse_per_sample(problem) or refuse_other_sets(problem)

    def init(self, oracle: Oracle, point: Pair) -> State:
        """Estimates of weight 0."""
        v, theta = point
        k = number(0, v[0])
        return {"u": zeros_like(theta), "w": zeros_like(v), "v": clone(v), "theta": clone(theta), "k": (k,)}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One outer step."""
        v, theta = point
        oracle, (k,) = second_order(oracle), state["k"]
        rate = self.neumann_lr if self.neumann_lr is not None else self.inner_lr
        on_s = (batches.inner, batches.outer[0], rate, self.Q, self.series)
        new = estimate(oracle, v, theta, *on_s)
        if self.recursion == "storm":
            old = estimate(oracle, state["v"], state["theta"], *on_s)
            eta, before = (self.d / (self.m + i) ** (1 / 3) for i in (k, (k - 1).clamp(min=0)))  # line 1
            alpha, beta = (c * before**2 for c in (self.c1, self.c2))
        else:
            old, eta = new, torch.ones_like(k)
            alpha, beta = (torch.full_like(k, c) for c in (self.alpha, self.beta))
        alpha, beta = (torch.where(k == 0, 1.0, c.clamp(max=1)) for c in (alpha, beta))
        u = axpy(1 - beta, sub(state["u"], old.g), new.g)  # line 2
        w = axpy(1 - alpha, sub(state["w"], old.h), new.h)  # line 3
        after: State = {"u": u, "w": w, "v": clone(v), "theta": clone(theta), "k": (k + 1,)}
        return Step(Pair(scale(eta, w), scale(eta, u)), after, Info(new.f))  # line 4
