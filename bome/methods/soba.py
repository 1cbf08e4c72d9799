r"""SOBA: a single loop over θ, the linear system and v (Dagréou, Ablin, Vaiter, Moreau; NeurIPS 2022).

    for k = 0, 1, ...            (all of it evaluated at (v_k, θ_k, z_k))
        1:  D_θ = ∇_θ g,   D_z = H z_k + ∇_θ f,   D_v = ∇_v f + B z_k
        2:  θ_{k+1} = θ_k − ρ D_θ,   z_{k+1} = z_k − ρ D_z,   v_{k+1} = v_k − ξ_v D_v

| symbol | here | symbol | here |
|---|---|---|---|
| z | `state["z"]`; tends to −H⁻¹ ∇_θ f | ρ | ξ_θ, the learning rate of each leaf of θ |
| Hz, Bz | `products.theta`, `products.v` | D_v, D_θ | the direction |

One inner batch serves ∇_θ g, Hz and Bz. Cost per step: 1 evaluation of g, 1 of f, 1 Hessian-vector and 1 cross product,
the last two by one double backward. State: z, from 0.

At θ = θ*(v), z = −H⁻¹∇_θ f nothing but v moves, and D_v is the hypergradient. With minibatches the step sizes must
decrease, ∝ k^{-1/2} (a scheduler on both optimisers); with constant ones use `saba`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from bome._typing import Leaves, State
from bome.core.barrier import Metric
from bome.core.trees import Pair, add, zeros_like
from bome.methods.base import Batches, Info, Method, Step, second_order
from bome.methods.free import Free, refuse_other_sets
from bome.oracles.base import Needs, Oracle
from bome.problem import Problem


@dataclass(frozen=True)
class SOBA(Method):
    """One step each for θ, z and v. It has no settings but the two step sizes."""

    name: ClassVar[str] = "soba"
    requires: ClassVar[Needs] = Needs.FIRST_ORDER | Needs.HVP
    separable: ClassVar[bool] = True
    settles = "solution"

    def refusal(self, problem: Problem) -> str | None:
        """It knows which entries of θ are free in a box."""
        return refuse_other_sets(problem)

    @property
    def cost(self) -> Mapping[str, int]:
        """The evaluations of a step."""
        return {"g": 1, "f": 1, "hvp": 1, "xvp": 1}

    def init(self, oracle: Oracle, point: Pair) -> State:
        """z = 0."""
        return {"z": zeros_like(point.theta)}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One outer step."""
        (v, theta), free = point, Free(oracle.problem, point.theta)
        z = free(state["z"])  # without bounds all entries are
        g = second_order(oracle).gradient_map(v, theta, batches.inner[0])
        products = g.pull(z)  # Bz and Hz
        f = oracle.outer(v, theta, batches.outer[0])
        d_theta, d_z, d_v = g.value, free(add(products.theta, f.grad.theta)), add(f.grad.v, products.v)  # line 1
        return Step(Pair(d_v, d_theta), {"z": descended(z, d_z, metric)}, Info(f.value))  # line 2


def descended(z: Leaves, direction: Leaves, metric: Metric) -> Leaves:
    """z − ρ D_z with the step size of each leaf of θ."""
    return tuple(x - rho * d for x, d, rho in zip(z, direction, metric.theta, strict=True))
