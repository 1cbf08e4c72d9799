r"""Alternating descent: the update of the contextual transformation network (Pham, Liu, Sahoo, Hoi; 2021).

    for k = 0, 1, ...
        1:  θ_0 = θ_k;   θ_{t+1} = Φ(v_k, θ_t),   t = 0 .. T−1
        2:  v_{k+1} = v_k − ξ_v ∇_v f(v_k, θ_T),   θ_{k+1} = θ_T

| symbol | here | symbol | here |
|---|---|---|---|
| Φ, T | one step of `inner`, `inner.steps` | ∇_v f | `f.grad.v` |

It is called ITD where it was published, but no derivative flows through line 1: ∇_v f is the direct partial derivative
only, so that the method ignores how θ_T depends on v. It belongs to no list of bilevel methods and is here to compare
with the published numbers; `itd` is the method with the total derivative.

Cost per step: T evaluations of g, 1 of f; no second-order products. State: none. Every inner step has a batch of its
own, as published.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from bome._typing import State
from bome.core.barrier import Metric
from bome.core.trees import Pair
from bome.inner import InnerMap
from bome.methods.base import Batches, Info, Method, Step
from bome.oracles.base import Oracle


@dataclass(frozen=True)
class Alternating(Method):
    """T inner steps, then a step along the direct derivative of f in v.

    Attributes:
        inner: the inner map Φ and T.
    """

    inner: InnerMap

    name: ClassVar[str] = "alternating"
    moves_theta: ClassVar[bool] = False
    bias: ClassVar[str] = "it ignores how θ depends on v"

    @property
    def inner_batches(self) -> int:
        """One for each inner step."""
        return self.inner.steps

    @property
    def cost(self) -> Mapping[str, int]:
        """The evaluations of a step."""
        return {"g": self.inner.steps, "f": 1}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One outer step."""
        v, theta = point
        theta_T = oracle.descend(v, theta, self.inner, batches.inner)  # line 1  # noqa: N806
        f = oracle.outer(v, theta_T, batches.outer[0], "v")
        return Step(Pair(f.grad.v, ()), state, Info(f.value), new_theta=theta_T)  # line 2
