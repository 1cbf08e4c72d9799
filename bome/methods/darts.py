r"""DARTS: implicit differentiation by finite differences, with the identity for H⁻¹ (Liu, Simonyan, Yang; 2019).

    for k = 0, 1, ...
        1:  θ_T by T inner steps on g(v_k, ·) from θ_k
        2:  d = ∇_θ f(v_k, θ_T),   ε = R / ‖d‖
        3:  h = ∇_v f(v_k, θ_T) − c [∇_v g(v_k, θ_T + εd) − ∇_v g(v_k, θ_T − εd)] / (2ε)        (≈ f_v − c B d)
        4:  v_{k+1} = v_k − ξ_v h,   θ_{k+1} = θ_T

| symbol | here | symbol | here |
|---|---|---|---|
| T | `inner.steps` | R | `R` |
| c | 1, or the inner step size α with `scale="lr"` | d, h | `f.grad.theta`, `h` |

Cost per step: T + 2 evaluations of g and 1 of f; no second-order products, so every oracle will do. Two θ-size vectors.
State: none.

With H = I the direction is the hypergradient, exactly if B does not depend on θ, else up to O(R²).

Where published code differs: the original multiplies the bracket by the step size of its single inner step (variant
`original`), and takes the differences around θ_k instead of θ_T.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch

from bome._checks import check_choice, check_positive
from bome._typing import Leaves, State
from bome.core.barrier import Metric
from bome.core.trees import Pair, axpy, dot, scale, sub
from bome.errors import ProblemError
from bome.inner import InnerMap
from bome.methods.base import Batches, Info, Method, Step
from bome.methods.free import Free, refuse_other_sets
from bome.oracles.base import Oracle
from bome.problem import Problem

Scale = Literal["one", "lr"]


@dataclass(frozen=True)
class DARTS(Method):
    """First-order implicit differentiation with H⁻¹ ≈ c I.

    Attributes:
        inner: the inner map and T.
        R: length of the finite-difference step in θ.
        scale: "one" for c = 1, "lr" for c = α.
    """

    inner: InnerMap
    R: float = 0.01
    scale: Scale = "one"

    name: ClassVar[str] = "darts"
    moves_theta: ClassVar[bool] = False
    bias: ClassVar[str] = "H⁻¹ is replaced by a multiple of the identity"
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {"original": {"scale": "lr"}}

    def __post_init__(self) -> None:
        check_positive("R", self.R)
        check_choice("scale", self.scale, Scale)
        if self.scale == "lr" and not hasattr(self.inner, "lr"):
            raise ProblemError(f"scale='lr' needs an inner map with a step size, got {self.inner!r}")

    def refusal(self, problem: Problem) -> str | None:
        """It knows which entries of θ are free in a box."""
        return refuse_other_sets(problem)

    @property
    def cost(self) -> Mapping[str, int]:
        """The evaluations of a step."""
        return {"g": self.inner.steps + 2, "f": 1}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One outer step."""
        v, theta = point
        theta_T = oracle.descend(v, theta, self.inner, batches.inner)  # line 1  # noqa: N806
        f = oracle.outer(v, theta_T, batches.outer[0])
        c: float = getattr(self.inner, "lr") if self.scale == "lr" else 1.0  # noqa: B009 - not all maps have one
        d = Free(oracle.problem, theta_T)(f.grad.theta)  # line 2, where without bounds all entries are free
        cross = cross_difference(oracle, v, theta_T, d, self.R, batches.inner[0])
        h = axpy(-c, cross, f.grad.v)  # line 3
        return Step(Pair(h, ()), state, Info(f.value), new_theta=theta_T)  # line 4


def cross_difference(oracle: Oracle, v: Leaves, theta: Leaves, d: Leaves, radius: float, batch: Any) -> Leaves:
    """B d by central differences of ∇_v g over θ ± R d/‖d‖; 0 where d = 0. Two evaluations of g."""
    size = dot(d, d).sqrt()
    eps = torch.where(size > 0, radius / torch.where(size > 0, size, 1.0), 0.0)
    ahead = oracle.inner(v, axpy(eps, d, theta), batch, wrt="v").grad.v
    behind = oracle.inner(v, axpy(-eps, d, theta), batch, wrt="v").grad.v
    return scale(size / (2 * radius), sub(ahead, behind))
