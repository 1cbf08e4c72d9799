r"""reverse: back-propagation through the last K inner steps, one at a time (truncated, recomputing).

    for k = 0, 1, ...
        1:  s_0 = (θ_k, 0);   s_{t+1} = Φ(v_k, s_t),   t = 0 .. T−1       (no graph; the last K+1 states are stored)
        2:  a = (∇_θ f(v_k, θ_T), 0),   h = ∇_v f(v_k, θ_T)
        3:  for t = T−1 down to max(T−K, 0):   h ← h + (∂Φ/∂v)ᵀa,   a ← (∂Φ/∂s)ᵀa,   both at (v_k, s_t)
        4:  v_{k+1} = v_k − ξ_v h,   θ_{k+1} = θ_T

| symbol | here | symbol | here |
|---|---|---|---|
| Φ, T | one step of `inner`, `inner.steps` | s = (θ, m) | a state: θ and the buffers of the inner map |
| K | `K` | a, h | `a`, `h` |

Cost per step, with K' = min(K, T): T + K' evaluations of g, 1 of f, K' Hessian-vector and K' cross products. Memory:
K' + 1 states and the graph of one inner step. State: none.

For K ≥ T it equals ITD. For K < T on the quadratic g = ½(θ−Av)ᵀH(θ−Av) with gradient descent the direction is
f_v + Aᵀ(I − (I−αH)^K) f_θ(θ_T). The published code (hypertorch, K = 10) is the same.
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
class Reverse(Method):
    """Back-propagation through the last K of T inner steps.

    Attributes:
        inner: the inner map Φ and T; must be differentiable.
        K: how many inner steps to go back.
    """

    inner: DifferentiableMap
    K: int = 10

    name: ClassVar[str] = "reverse"
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
        back = min(self.K, self.inner.steps)
        return {"g": self.inner.steps + back, "f": 1, "hvp": back, "xvp": back}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One outer step."""
        v, theta = point
        oracle = second_order(oracle)
        *states, s_T = trajectory(oracle, v, theta, self.inner, batches.inner, self.K + 1)  # line 1  # noqa: N806
        theta_T, buffers = s_T[: len(theta)], s_T[len(theta) :]  # noqa: N806
        f = oracle.outer(v, theta_T, batches.outer[0])
        a, h = f.grad.theta + zeros_like(buffers), f.grad.v  # line 2
        for s in reversed(states):  # line 3
            back = oracle.inner_map(v, s, self.inner, batches.inner[0]).pull(a)
            h, a = add(h, back.v), back.theta
        return Step(Pair(h, ()), state, Info(f.value), new_theta=theta_T)  # line 4
