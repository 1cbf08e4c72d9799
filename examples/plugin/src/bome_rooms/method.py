r"""BOME with a largest multiplier: steps stay small where ∇q̂ nearly vanishes.

    1:  q̂(v, θ) = g(v, θ) − g(v, θ^(T)),  with θ^(T) after T inner steps held constant
    2:  λ_k = min( max( η − ⟨∇f, ∇q̂⟩ / ‖∇q̂‖² , 0 ), cap )
    3:  (v, θ)_{k+1} = (v, θ)_k − ξ (∇f + λ_k ∇q̂)

Cost per step: T + 1 evaluations of g and 1 of f. State: none. It ends at a minimum of f + cap (g − g*), O(1/cap) from a
solution; the steps are stable for ξ up to about 2 / (cap · the curvature of g).
"""

from dataclasses import dataclass
from typing import ClassVar

from bome.methods import (
    Batches,
    Info,
    InnerMap,
    Method,
    Metric,
    Oracle,
    Pair,
    State,
    Step,
    axpy,
    barrier,
    check_positive,
    euclidean,
    multiplier,
    sub,
)


@dataclass(frozen=True)
class Capped(Method):
    """BOME with a largest multiplier.

    Attributes:
        inner: α and T of the look-ahead.
        eta: η > 0, how strongly each step must decrease q̂.
        cap: the largest λ.
    """

    inner: InnerMap
    eta: float = 0.5
    cap: float = 3.0

    name: ClassVar[str] = "capped"
    settles = "penalty"
    variants: ClassVar = {"loose": {"cap": 1.0}}

    def __post_init__(self) -> None:
        check_positive("eta (η)", self.eta)
        check_positive("cap", self.cap)

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """The three lines above."""
        v, theta = point
        g = oracle.inner(v, theta, batches.inner[0])
        ahead = oracle.look_ahead(v, theta, g, self.inner, batches.inner)
        q, dq = g.value - ahead.value, Pair(sub(g.grad.v, ahead.grad.v), g.grad.theta)  # line 1
        f = oracle.outer(v, theta, batches.outer[0])
        products = euclidean(f.grad, dq)
        lam = multiplier(products, barrier("norm", self.eta, products, q)).clamp(max=self.cap)  # line 2
        direction = Pair(axpy(lam, dq.v, f.grad.v), axpy(lam, dq.theta, f.grad.theta))  # line 3
        return Step(direction, state, Info(f.value, g.value, q, lam))
