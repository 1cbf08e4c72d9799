r"""SAMA: DARTS' finite difference with the inner optimiser's own preconditioner in place of H⁻¹ (Choe et al.; 2023).

    for k = 0, 1, ...
        1:  θ_T by T inner steps on g(v_k, ·) from θ_k
        2:  d = P ⊙ ∇_θ f(v_k, θ_T),   ε = R / ‖d‖,   P the diagonal Jacobian of the last update by its gradient
        3:  h = ∇_v f(v_k, θ_T) − [∇_v g(v_k, θ_T + εd) − ∇_v g(v_k, θ_T − εd)] / (2ε)        (≈ f_v − B d)
        4:  v_{k+1} = v_k − ξ_v h,   θ_{k+1} = θ_T

| symbol | here | symbol | here |
|---|---|---|---|
| T | `inner.steps` | R | `R` |
| P ⊙ | `preconditioned` | d, h | `d`, `h` |

For gradient descent P = 1 (without its step size), so that SAMA is DARTS. For Adam, with m', ν' the moments before the
last step, g its gradient, ν the second moment after it, t its number, c1 = 1/(1 − β1^t), c2 = 1/(1 − β2^t):

    P = α c1 c2 [ (1−β1) β2 ν' − β1 (1−β2) g m' + (1−β1) ε_A²/c2 ] / (c2 ν + ε_A²)^{3/2}

Cost per step: T + 2 evaluations of g and 1 of f; no second-order products, so every oracle will do. Two θ-size vectors
and two states of the inner optimiser. State: none.

Where we differ from the paper: its formula for Adam leaves out the bias corrections c1, c2 (which tend to 1), and has
(√ν + ε_A)³ below; ours is the exact Jacobian of our `AdamDescent`, which has ε_A inside the root. Our inner optimiser
starts afresh in every outer step; note that with T = 1 Adam's step is α·sign(g), so P is 0 but for ε_A: use T > 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from bome._checks import check_positive
from bome._typing import Leaves, State
from bome.core.barrier import Metric
from bome.core.trees import Pair, sub
from bome.errors import ProblemError
from bome.inner import AdamDescent, GradientDescent
from bome.methods.base import Batches, Info, Method, Step
from bome.methods.darts import cross_difference
from bome.methods.free import Free, refuse_other_sets
from bome.methods.trajectory import check_steps, trajectory
from bome.oracles.base import Oracle
from bome.problem import Problem


@dataclass(frozen=True)
class SAMA(Method):
    """First-order implicit differentiation with H⁻¹ ≈ P.

    Attributes:
        inner: the inner map and T.
        R: length of the finite-difference step in θ.
    """

    inner: GradientDescent | AdamDescent
    R: float = 1.0

    name: ClassVar[str] = "sama"
    moves_theta: ClassVar[bool] = False
    bias: ClassVar[str] = "H⁻¹ is replaced by the inner optimiser's diagonal"

    def __post_init__(self) -> None:
        check_positive("R", self.R)
        check_steps(self.name, self.inner)
        if not isinstance(self.inner, (GradientDescent, AdamDescent)):
            raise ProblemError(f"sama knows the Jacobian of GradientDescent and AdamDescent, not of {self.inner!r}")

    def refusal(self, problem: Problem) -> str | None:
        """It knows which entries of θ are free in a box."""
        return refuse_other_sets(problem)

    @property
    def cost(self) -> Mapping[str, int]:
        """The evaluations of a step."""
        return {"g": self.inner.steps + 2, "f": 1}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One outer step."""
        (v, theta), n = point, len(point.theta)
        before, after = trajectory(oracle, v, theta, self.inner, batches.inner, keep=2)  # line 1
        theta_T = after[:n]  # noqa: N806
        f = oracle.outer(v, theta_T, batches.outer[0])
        free = Free(oracle.problem, theta_T)  # without bounds all entries are
        d = free(preconditioned(self.inner, before[n:], after[n:], f.grad.theta))  # line 2
        h = sub(f.grad.v, cross_difference(oracle, v, theta_T, d, self.R, batches.inner[0]))  # line 3
        return Step(Pair(h, ()), state, Info(f.value), new_theta=theta_T)  # line 4


def preconditioned(inner: GradientDescent | AdamDescent, before: Leaves, after: Leaves, d: Leaves) -> Leaves:
    """P ⊙ d, from the buffers of the inner map before and after its last step."""
    if isinstance(inner, GradientDescent):
        return d
    return tuple(
        (adam_jacobian(inner, before[3 * i : 3 * i + 3], after[3 * i : 3 * i + 3]) * x).to(x.dtype)
        for i, x in enumerate(d)
    )


def adam_jacobian(inner: AdamDescent, before: Leaves, after: Leaves) -> Tensor:
    """P for one leaf, from Adam's buffers (first moment, second moment, count) before and after the step."""
    (beta1, beta2), (m_old, nu_old, _), (m, nu, t) = inner.betas, before, after
    g = (m - beta1 * m_old) / (1 - beta1)
    c1, c2 = 1 / (1 - beta1**t), 1 / (1 - beta2**t)
    top = (1 - beta1) * beta2 * nu_old - beta1 * (1 - beta2) * g * m_old + (1 - beta1) * inner.eps**2 / c2
    p: Tensor = inner.lr * c1 * c2 * top / (c2 * nu + inner.eps**2) ** 1.5
    return p
