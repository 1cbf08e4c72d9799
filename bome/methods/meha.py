r"""MEHA: Moreau-envelope-based, Hessian-free, single loop (Liu, Liu, Yao, Zeng, Zhang; ICML 2024).

    state: z, z = θ_0 at the start
    for k = 0, 1, ...          c_k = c_0 (k+1)^p
        1:  z⁺ = z − η_z (g_θ(v_k, z) + (z − θ_k)/γ)
        2:  θ_{k+1} = θ_k − α (f_θ(v_k, θ_k)/c_k + g_θ(v_k, θ_k) − (θ_k − z⁺)/γ)
        3:  v_{k+1} = v_k − β (f_v(v_k, θ_{k+1})/c_k + g_v(v_k, θ_{k+1}) − g_v(v_k, z⁺))

| symbol | here | symbol | here |
|---|---|---|---|
| η_z | `inner_lr` | c_0, p | `c`, `p` |
| α, β | the learning rates of the optimisers of θ and v | γ | `gamma` |

Cost per step: 4 evaluations of g and 2 of f; no inner loop, no second-order products. State: z, and k.

When to use it: where g(v, ·) is only weakly convex. γ must be below the inverse of its negative curvature, p in [0, ½).

Where published code differs: BOAT has c_0 = 0.2, p = ¼, 1/γ = 0.01 and η_z = 1e-3 (variant `boat`, but for η_z, which
is the task's); c_0 = 1 here leaves the step on f at the start as large as the learning rate says.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from bome._checks import check_positive
from bome._typing import State
from bome.core.barrier import Metric
from bome.core.trees import Pair, axpy, clone, number, sub
from bome.errors import ProblemError
from bome.methods.base import Batches, Info, Method, Step
from bome.methods.bvfsm import stepped
from bome.oracles.base import Oracle


@dataclass(frozen=True)
class MEHA(Method):
    """Single loop on the Moreau envelope of the inner problem.

    Attributes:
        inner_lr: η_z, the step size of z.
        gamma: γ of the Moreau envelope.
        c: c_0, the weight of the penalty at the start.
        p: the exponent with which it grows.
    """

    inner_lr: float
    gamma: float = 100.0
    c: float = 1.0
    p: float = 0.25

    name: ClassVar[str] = "meha"
    chooses: ClassVar[bool] = True
    settles = "penalty"
    accuracy: ClassVar[tuple[str, ...]] = ("c", "gamma")
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {"boat": {"c": 0.2, "p": 0.25, "gamma": 100.0}}

    def __post_init__(self) -> None:
        check_positive("inner_lr (η_z)", self.inner_lr)
        check_positive("gamma (γ)", self.gamma)
        check_positive("c (c_0)", self.c)
        if not 0 <= self.p < 0.5:
            raise ProblemError(f"p must be in [0, 1/2), got {self.p!r}")

    def init(self, oracle: Oracle, point: Pair) -> State:
        """z = θ_0."""
        return {"z": clone(point.theta), "k": (number(0, point.theta[0]),)}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One step."""
        (v, theta), z, (k,) = point, state["z"], state["k"]
        zeta, xi, problem = batches.inner[0], batches.outer[0], oracle.problem
        c = self.c * (k + 1) ** self.p
        g = oracle.inner(v, theta, zeta, "theta")
        g_z = oracle.inner(v, z, zeta, "theta")  # line 1
        d_z = axpy(1 / self.gamma, sub(z, theta), g_z.grad.theta)
        z = stepped(problem, z, d_z, (self.inner_lr,) * len(z))
        f = oracle.outer(v, theta, xi, "theta")  # line 2
        d_theta = axpy(1 / c, f.grad.theta, axpy(-1 / self.gamma, sub(theta, z), g.grad.theta))
        theta = stepped(problem, theta, d_theta, metric.theta)
        g, g_z = oracle.inner(v, theta, zeta, "v"), oracle.inner(v, z, zeta, "v")  # line 3
        f = oracle.outer(v, theta, xi, "v")
        d_v = axpy(1 / c, f.grad.v, sub(g.grad.v, g_z.grad.v))
        info = Info(f.value, g.value, g.value - g_z.value, c)
        return Step(Pair(d_v, ()), {"z": z, "k": (k + 1,)}, info, new_theta=theta)
