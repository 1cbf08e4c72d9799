r"""AID-CG: approximate implicit differentiation, the linear system solved by conjugate gradients.

    for k = 0, 1, ...
        1:  θ_T by T inner steps on g(v_k, ·) from θ_k
        2:  z ≈ H⁻¹ ∇_θ f(v_k, θ_T) by K steps of conjugate gradients from z = 0,   H = ∇²_θθ g(v_k, θ_T)
        3:  h = ∇_v f(v_k, θ_T) − B z,   B = ∇²_vθ g(v_k, θ_T)
        4:  v_{k+1} = v_k − ξ_v h,   θ_{k+1} = θ_T

| symbol | here | symbol | here |
|---|---|---|---|
| T | `inner.steps` | K | `K` |
| Hz, Bz | `g.pull(z, "theta")`, `g.pull(z, "v")` | z, h | `z`, `h` |

Cost per step: T + 1 evaluations of g, 1 of f, K Hessian-vector products and 1 cross product. Four θ-size vectors and
the graph of one gradient. State: none.

Needs H ≻ 0: conjugate gradients stop at a direction of no positive curvature. Exact at θ_T for K ≥ n; before, the error
falls like ((√κ−1)/(√κ+1))^K, κ the condition number of H.

Where published code differs: hypertorch tests the residual before it stores the iterate, and so returns the one before
the one that met the tolerance. We store first. We also do all K products, of which those after the tolerance is met
change nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from bome._checks import check_count, check_positive
from bome._typing import State
from bome.core.barrier import Metric
from bome.core.linalg import conjugate_gradients
from bome.core.trees import Pair, sub
from bome.inner import InnerMap
from bome.methods.base import Batches, Info, Method, Step, second_order
from bome.methods.free import Free, refuse_other_sets
from bome.oracles.base import Needs, Oracle
from bome.problem import Problem


@dataclass(frozen=True)
class AIDCG(Method):
    """Implicit differentiation by conjugate gradients.

    Attributes:
        inner: the inner map and T.
        K: steps of conjugate gradients.
        tolerance: on the norm of the residual ∇_θ f − Hz.
    """

    inner: InnerMap
    K: int = 10
    tolerance: float = 1e-10

    name: ClassVar[str] = "aid-cg"
    moves_theta: ClassVar[bool] = False
    requires: ClassVar[Needs] = Needs.FIRST_ORDER | Needs.HVP
    settles = "solution"

    def __post_init__(self) -> None:
        check_count("K", self.K)
        check_positive("tolerance", self.tolerance)

    def refusal(self, problem: Problem) -> str | None:
        """It knows which entries of θ are free in a box."""
        return refuse_other_sets(problem)

    @property
    def cost(self) -> Mapping[str, int]:
        """The evaluations of a step."""
        return {"g": self.inner.steps + 1, "f": 1, "hvp": self.K, "xvp": 1}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One outer step."""
        v, theta = point
        oracle = second_order(oracle)
        theta_T = oracle.descend(v, theta, self.inner, batches.inner)  # line 1  # noqa: N806
        f = oracle.outer(v, theta_T, batches.outer[0])
        g = oracle.gradient_map(v, theta_T, batches.inner[0])
        free = Free(oracle.problem, theta_T)  # without bounds all entries are
        z = conjugate_gradients(  # line 2
            lambda p: free(g.pull(p, "theta").theta), free(f.grad.theta), self.K, self.tolerance
        )
        h = sub(f.grad.v, g.pull(z, "v").v)  # line 3
        return Step(Pair(h, ()), state, Info(f.value), new_theta=theta_T)  # line 4
