r"""AID-FP: approximate implicit differentiation by a fixed-point iteration on the Jacobian of the inner map.

    for k = 0, 1, ...
        1:  s_0 = (θ_k, 0);   s_{t+1} = Φ(v_k, s_t),   t = 0 .. T−1
        2:  u_0 = 0;   u_{i+1} = (∂Φ/∂s)ᵀ u_i + (∇_θ f(v_k, θ_T), 0),   i = 0 .. K−1,   at (v_k, s_T)
        3:  h = ∇_v f(v_k, θ_T) + (∂Φ/∂v)ᵀ u_K
        4:  v_{k+1} = v_k − ξ_v h,   θ_{k+1} = θ_T

| symbol | here | symbol | here |
|---|---|---|---|
| Φ, T | one step of `inner`, `inner.steps` | s = (θ, m) | θ and the buffers of the inner map |
| K | `K` | u, h | `u`, `h` |

Cost per step: T + 1 evaluations of g, 1 of f, K − 1 Hessian-vector products (u_1 needs none) and 1 cross product. Three
state-size vectors and the graph of one inner step. State: none.

With plain gradient descent h = f_v − αB Σ_{i<K} (I−αH)^i f_θ: the error decays like (1 − αμ)^K, so that a small α makes
the truncation severe.

The published code (hypertorch, K = 10) also stops once ‖u_{i+1} − u_i‖ < 1e-10, where further terms change nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from bome._checks import check_count
from bome._typing import State
from bome.core.barrier import Metric
from bome.core.trees import Pair, add, zeros_like
from bome.inner import DifferentiableMap
from bome.methods.base import Batches, Info, Method, Step, second_order
from bome.methods.trajectory import check_differentiable, trajectory
from bome.oracles.base import Needs, Oracle


@dataclass(frozen=True)
class AIDFP(Method):
    """Implicit differentiation by a fixed-point iteration.

    Attributes:
        inner: the inner map Φ and T; must be differentiable.
        K: steps of the fixed-point iteration.
    """

    inner: DifferentiableMap
    K: int = 10

    name: ClassVar[str] = "aid-fp"
    moves_theta: ClassVar[bool] = False
    requires: ClassVar[Needs] = Needs.FIRST_ORDER | Needs.HVP
    separable: ClassVar[bool] = True
    settles = "solution"

    def __post_init__(self) -> None:
        check_differentiable(self.name, self.inner)
        check_count("K", self.K)

    @property
    def cost(self) -> Mapping[str, int]:
        """The evaluations of a step."""
        return {"g": self.inner.steps + 1, "f": 1, "hvp": self.K - 1, "xvp": 1}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One outer step."""
        v, theta = point
        oracle = second_order(oracle)
        (s_T,) = trajectory(oracle, v, theta, self.inner, batches.inner, keep=1)  # line 1  # noqa: N806
        theta_T, buffers = s_T[: len(theta)], s_T[len(theta) :]  # noqa: N806
        f = oracle.outer(v, theta_T, batches.outer[0])
        phi = oracle.inner_map(v, s_T, self.inner, batches.inner[0])
        c = f.grad.theta + zeros_like(buffers)
        u = c  # line 2: u_1
        for _ in range(self.K - 1):
            u = add(phi.pull(u, "theta").theta, c)
        h = add(f.grad.v, phi.pull(u, "v").v)  # line 3
        return Step(Pair(h, ()), state, Info(f.value), new_theta=theta_T)  # line 4
