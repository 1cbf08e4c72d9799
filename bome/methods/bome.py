r"""BOME: bilevel optimisation made easy (Ye, Liu, Wright, Stone, Liu; NeurIPS 2022), Algorithm 1.

    input: v_0, θ_0, inner map (step α, T steps), step sizes ξ_v and ξ_θ, η
    for k = 0, 1, ...
        1:  θ^(0) = θ_k;   θ^(t+1) = θ^(t) − α ∇_θ g(v_k, θ^(t)),   t = 0 .. T−1
        2:  q̂(v, θ) = g(v, θ) − g(v, θ^(T)),  with θ^(T) held constant
            ∇q̂ = ( ∇_v g(v_k, θ_k) − ∇_v g(v_k, θ^(T)) ,  ∇_θ g(v_k, θ_k) )
        3:  λ_k = max( (φ_k − ⟨∇f, ∇q̂⟩) / ‖∇q̂‖² , 0 ),   φ_k = η‖∇q̂‖²  or  η q̂
        4:  (v, θ)_{k+1} = (v, θ)_k − ξ (∇f + λ_k ∇q̂)

    with projections P of v and θ line 4 is (v, θ)_{k+1} = P( (v, θ)_k − ξ (∇f + λ_k ∇q̂) ), and line 3
        3:  λ_k = min { λ ≥ 0 : ⟨∇q̂, d(∇f + λ∇q̂)⟩ ≥ φ_k },   φ_k = η‖d(∇q̂)‖²  or  η q̂,   d(δ) = (x − P(x − ξδ)) / ξ

| symbol | here | symbol | here |
|---|---|---|---|
| v, θ | `v`, `theta` | ∇f, ∇q̂ | `f.grad`, `dq` |
| T, α | `inner.steps`, `inner.lr` | η, φ | `eta`, `phi` |
| λ_k | `lam` | ξ_v, ξ_θ | the learning rates of the two optimisers |

Cost per step: T+1 evaluations of g and 1 of f; no second-order products. The gradient of g at (v_k, θ_k) serves both
the first inner step and ∇q̂, where the authors' code evaluates it twice. State: none.

Where we differ from the paper and its code:
* Line 2 of the paper's plug-in formula shows θ*(v) where θ^(T) is meant; we use θ^(T).
* λ is formed in float64 with nothing added to the denominator, and λ = 0 where ∇q̂ = 0. The authors add 1e-4 or 1e-8:
  variant `published` does that, to compare with their numbers.
* θ^(T) is projected at every inner step if θ has a projection. λ counts only what the projections leave of the step
  (`core.bounded`): with the paper's λ, variant `paper`, BOME ends at a wrong point where a bound is active at the
  solution, whatever the step sizes, T and η. Without projections both are the same.
* The paper's guarantee ⟨∇q̂, δ⟩ ≥ φ holds for the step taken only if ξ_v = ξ_θ (in its hyper-cleaning they differ by
  10⁴). Variant `preconditioned` takes inner products in the metric of the actual step sizes, for which it always holds.
* With minibatches all T inner steps use one batch; variant `fresh` draws a new one for each.
* The inner buffers start afresh at every outer step; in the authors' code they persist while θ^(0) is reset to θ_k.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor

from bome._checks import check_positive
from bome._typing import State
from bome.core.barrier import Metric, Phi, Products, barrier, euclidean, kkt_gradient, multiplier, relative, weighted
from bome.core.bounded import bounded_multiplier
from bome.core.trees import Pair, axpy, sub
from bome.errors import ProblemError
from bome.inner import InnerMap, check_inner
from bome.methods.base import Batches, Info, Method, Step
from bome.oracles.base import Ahead, Eval, Oracle
from bome.problem import Problem


@dataclass(frozen=True)
class BOME(Method):
    """The paper's method.

    Attributes:
        inner: α and T of the look-ahead, such as `GradientDescent(lr=0.05, steps=10)`.
        eta: η > 0, how strongly each step must decrease q̂.
        phi: "norm" for φ = η‖∇q̂‖² (the paper's default), "gap" for φ = η q̂.
        geometry: "euclidean" as in the paper, or "steps": inner products in the metric of the step sizes.
        draw: "one" inner batch for all inner steps, or a "fresh" one for each.
        eps: added to ‖∇q̂‖² in λ, as the authors' code does; 0 is right.
        counts: whether λ counts what projections have "left" of a step, or "all" of it, as in the paper.
    """

    inner: InnerMap
    eta: float = 0.5
    phi: Phi = "norm"
    geometry: Literal["euclidean", "steps"] = "euclidean"
    draw: Literal["one", "fresh"] = "one"
    eps: float = 0.0
    counts: Literal["left", "all"] = "left"

    name: ClassVar[str] = "bome"
    chooses: ClassVar[bool] = True
    settles = "solution"
    tunable: ClassVar[bool] = True
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {"counts": "all"},
        "published": {"counts": "all", "eps": 1e-8},
        "fresh": {"draw": "fresh"},
        "preconditioned": {"geometry": "steps"},
        "auto": {},
    }

    def __post_init__(self) -> None:
        check_positive("eta (η)", self.eta)
        if self.phi not in ("norm", "gap"):
            raise ProblemError(f"phi must be 'norm' (η‖∇q̂‖²) or 'gap' (η q̂), got {self.phi!r}")
        check_inner(self.inner)
        if self.geometry not in ("euclidean", "steps"):
            raise ProblemError(f"geometry must be 'euclidean' or 'steps', got {self.geometry!r}")
        if self.draw not in ("one", "fresh"):
            raise ProblemError(f"draw must be 'one' (batch for all inner steps) or 'fresh', got {self.draw!r}")
        if self.eps != 0:
            check_positive("eps", self.eps)
        if self.counts not in ("left", "all"):
            raise ProblemError(f"counts must be 'left' (by projections) or 'all', got {self.counts!r}")

    @property
    def inner_batches(self) -> int:
        """One, or one for each inner step."""
        return self.inner.steps if self.draw == "fresh" else 1

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """Algorithm 1."""
        v, theta = point
        g = oracle.inner(v, theta, batches.inner[0])  # at (v_k, θ_k): also the gradient of the first inner step
        ahead = self.ahead(oracle, point, g, state, batches)  # line 1: g and ∇_v g at θ^(T)
        q = g.value - ahead.value  # line 2: q̂ and ∇q̂
        dq = Pair(sub(g.grad.v, ahead.grad.v), g.grad.theta)
        f = oracle.outer(v, theta, batches.outer[0])
        plain = euclidean(f.grad, dq)  # ‖∇f‖², ⟨∇f, ∇q̂⟩, ‖∇q̂‖²
        lam, kkt = self.weigh(oracle.problem, point, f.grad, dq, q, plain, metric)  # line 3: λ_k ≥ 0
        delta = Pair(axpy(lam, dq.v, f.grad.v), axpy(lam, dq.theta, f.grad.theta))  # line 4: δ = ∇f + λ_k ∇q̂
        cos = plain.fq / (plain.ff * plain.qq).sqrt()
        tail = (ahead.half - ahead.value) / q
        size = plain.ff + 2 * lam * plain.fq + lam**2 * plain.qq
        new = self.kept(state, ahead)
        return Step(delta, new, Info(f.value, g.value, q, lam, kkt, cos, tail), size=size)

    def weigh(
        self, problem: Problem, point: Pair, df: Pair, dq: Pair, q: Tensor, plain: Products, metric: Metric
    ) -> tuple[Tensor, Tensor]:
        """λ_k, and the gradient part of 𝒦."""
        sets = problem.project_v, problem.project_theta
        if self.counts == "all" or not any(sets):
            products = plain if self.geometry == "euclidean" else weighted(df, dq, metric)
            phi = barrier(self.phi, self.eta, products, q, self.eps)
            return multiplier(products, phi, self.eps), kkt_gradient(plain)
        weights = None if self.geometry == "euclidean" else relative(metric)
        lam, kkt = bounded_multiplier((self.phi, self.eta, q), point, df, dq, metric, sets, weights)
        return lam, kkt

    def ahead(self, oracle: Oracle, point: Pair, g: Eval, state: State, batches: Batches) -> Ahead:
        """The look-ahead from θ_k."""
        return oracle.look_ahead(point.v, point.theta, g, self.inner, batches.inner)

    def kept(self, state: State, ahead: Ahead) -> State:
        """What the next step may need of it."""
        return state
