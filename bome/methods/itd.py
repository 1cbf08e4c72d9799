r"""ITD: hypergradient by back-propagation through the whole inner loop (iterative differentiation).

    for k = 0, 1, ...
        1:  θ_0 = θ_k;   θ_{t+1} = Φ(v_k, θ_t),   t = 0 .. T−1        (graph kept)
        2:  h = d f(v_k, θ_T(v_k)) / dv                                 (back-propagation through line 1)
        3:  v_{k+1} = v_k − ξ_v h,   θ_{k+1} = θ_T

| symbol | here | symbol | here |
|---|---|---|---|
| Φ, T | one step of `inner`, `inner.steps` | h | `f.grad.v` |

Cost per step: T evaluations of g, 1 of f, T Hessian-vector and T cross products inside the back-propagation. Memory
grows like T copies of θ and their graph; `reverse` gives the same direction without the graphs. State: none.

On the quadratic g = ½(θ−Av)ᵀH(θ−Av) the direction is f_v + Aᵀ(I − (I−αH)^T) f_θ: biased for finite T, by a factor that
decays like (1 − αμ)^T.

Where published code differs: the inner momentum starts at 0 in every outer step, there as here, so with T = 1 it has no
effect; stocBiO's ITD-BiO uses plain gradient descent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from bome._typing import State
from bome.core.barrier import Metric
from bome.core.trees import Pair
from bome.inner import DifferentiableMap
from bome.methods.base import Batches, Info, Method, Step, second_order
from bome.methods.trajectory import check_differentiable
from bome.oracles.base import Needs, Oracle


@dataclass(frozen=True)
class ITD(Method):
    """Back-propagation through T inner steps.

    Attributes:
        inner: the inner map Φ and T; must be differentiable.
    """

    inner: DifferentiableMap

    name: ClassVar[str] = "itd"
    moves_theta: ClassVar[bool] = False
    requires: ClassVar[Needs] = Needs.FIRST_ORDER | Needs.UNROLL
    separable: ClassVar[bool] = True
    settles = "solution"

    def __post_init__(self) -> None:
        check_differentiable(self.name, self.inner)

    @property
    def cost(self) -> Mapping[str, int]:
        """The evaluations of a step."""
        return {"g": self.inner.steps, "f": 1, "hvp": self.inner.steps, "xvp": self.inner.steps}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One outer step."""
        v, theta = point
        f, theta_T = second_order(oracle).unroll(v, theta, self.inner, batches)  # lines 1, 2  # noqa: N806
        return Step(Pair(f.grad.v, ()), state, Info(f.value), new_theta=theta_T)  # line 3
