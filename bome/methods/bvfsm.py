r"""BVFSM: value-function-based sequential minimisation (Liu, Liu, Zeng, Zhang, Zhang; 2021).

    state: z, warm; z = θ_0 at the start
    for k = 0, 1, ...          R = R_k → 0,   σ = c_ln R
        1:  z ← z − α (g_θ(v_k, z) + 2 c_z R z),                                   T times
            g̃ = g(v_k, z) + c_z R ‖z‖²                                            (regularised value function)
        2:  θ ← θ − (ξ_θ / m) (f_θ(v_k, θ) + ρ g_θ(v_k, θ) + 2 c_z R θ),           T times
        3:  v_{k+1} = v_k − (ξ_v / m) (f_v(v_k, θ) + ρ (g_v(v_k, θ) − g_v(v_k, z))),    θ_{k+1} = θ

| symbol | here | symbol | here |
|---|---|---|---|
| α, T | `inner.lr`, `inner.steps` | R_k | `schedule` |
| ξ_θ | `metric.theta`, the rate of the optimiser of θ | c_z, c_ln | `c_z`, `c_ln` |
| ρ, m = max(ρ, 1) | `rho`, reported as λ | g̃ | `top` |

Lines 2 and 3 are gradient steps on f + P_σ(g(v, θ) − g̃(v)) + c_z R‖θ‖², so ρ = P_σ'. The weight by default: the log
barrier of the constraint g(v, θ) ≤ g̃(v), P = −σ log s with the slack s = g̃ − g(v, θ), and beyond s = σ its quadratic
continuation, since the constraint does not hold at the start or wherever ‖z‖ is small:

    ρ = σ / s   where s ≥ σ,      ρ = 2 − s / σ   where s < σ.

It is a function of differences of g, so the sign of g does not matter and no shift is needed; ρ > 0 always, and as R
falls it grows as far as f asks for it. Dividing by m keeps the steps along g as long as those of the inner problem,
whatever ρ is, and leaves the solution where it is.

Decay of R, with k from 0, but never below 1e-8: "log" 1/ln(1.1(k+1)), "linear" 1/(1.1(k+1)), "power1" 1.1^{−(k+1)},
"power2" (k+1)^{−1.1}; "constant" is 1/ln(1.1(K+1)), K the number of steps of the whole run.

Cost per step: 2T + 2 evaluations of g and T + 1 of f; no second-order products. State: z, and k.

When to use it: where g(v, ·) has several minimisers. The bias falls like R, that is slowly with "log"; with a faster
decay ρ grows faster, and with it the number of steps that f needs.

Where we differ from the paper: it solves lines 1 and 2 to some accuracy, we take T steps as its code does; it leaves
the choice of P open (interior or exterior), ours is one of the kind; it knows no m.

Where published code differs (variant `published`): the weight is ρ = σ / (ε + g̃), ε = 1e-4, as the log's argument there
is ε + g̃ − g(v, θ) plus the detached g(v, θ). So it is a plain penalty without any relation to the gap, and where
g̃ < 0 (minimax, LLS) it rewards infeasible points. On the toys R is constant, as the number of steps stands where the
step's index belongs; m = 1. The code of BVFSM's own authors adds the dimension of θ to the argument, since its g is a
sum of sines.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from bome._checks import check_choice, check_count, check_positive
from bome._typing import Leaves, State
from bome.core.barrier import Metric
from bome.core.trees import Pair, axpy, clone, dot, number, scale, sub
from bome.errors import ProblemError
from bome.inner import DifferentiableMap
from bome.methods.base import Batches, Info, Method, Step
from bome.methods.trajectory import check_differentiable, projected
from bome.oracles.base import Oracle
from bome.problem import Problem

Schedule = Literal["log", "linear", "power1", "power2", "constant"]
"""How the coefficients decay with k."""

Weight = Literal["barrier", "published"]
"""The log barrier and its quadratic continuation, or as coded by the BOME authors."""


@dataclass(frozen=True)
class BVFSM(Method):
    """Sequential minimisation with the regularised value function.

    Attributes:
        inner: α and T; each of the two loops takes T steps. GradientDescent or AdamDescent.
        c_z: factor of the quadratic regularisers of z and θ.
        c_ln: factor of the barrier.
        schedule: the decay of both factors with k.
        weight: "barrier" is the log barrier and its quadratic continuation, "published" as coded by the BOME authors.
        eps: ε of the weight "published".
        steps: K, the number of steps of the run; for the schedule "constant" only.
    """

    inner: DifferentiableMap
    c_z: float = 0.1
    c_ln: float = 0.1
    schedule: Schedule = "log"
    weight: Weight = "barrier"
    eps: float = 1e-4
    steps: int | None = None

    name: ClassVar[str] = "bvfsm"
    chooses: ClassVar[bool] = True
    settles = "penalty"
    accuracy: ClassVar[tuple[str, ...]] = ()
    bias: ClassVar[str] = "its regularisers fall only like 1/ln k"
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "published": {"weight": "published", "schedule": "constant", "c_z": 0.1, "c_ln": 0.1}
    }

    def __post_init__(self) -> None:
        check_differentiable(self.name, self.inner)
        check_positive("c_z", self.c_z)
        check_positive("c_ln", self.c_ln)
        check_positive("eps", self.eps)
        check_choice("schedule", self.schedule, Schedule)
        check_choice("weight", self.weight, Weight)
        if self.steps is not None:
            check_count("steps (K)", self.steps)
        if self.schedule == "constant" and self.steps is None:
            raise ProblemError("schedule 'constant' depends on the number of steps of the run: give steps (K)")

    def theta_steps(self, k: int) -> int:
        """T in each step."""
        return k * self.inner.steps

    def init(self, oracle: Oracle, point: Pair) -> State:
        """z = θ_0."""
        return {"z": clone(point.theta), "k": (number(0, point.theta[0]),)}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One outer step."""
        (v, theta), z, (k,) = point, state["z"], state["k"]
        zeta, xi, problem = batches.inner[0], batches.outer[0], oracle.problem
        R = self.factor(k)  # noqa: N806
        sigma, buffers = self.c_ln * R, self.inner.start(z)
        for _ in range(self.inner.steps):  # line 1: T steps on g(v, z) + c_z R ‖z‖²
            g_z = oracle.inner(v, z, zeta, "theta")
            z, buffers = self.inner.advance(z, axpy(2 * self.c_z * R, z, g_z.grad.theta), buffers)
            z = projected(problem, z)
        g_z = oracle.inner(v, z, zeta, "v")
        top = g_z.value.double() + self.c_z * R * dot(z, z)
        for _ in range(self.inner.steps):  # line 2: T steps on f + P(g − g̃) + c_z R ‖θ‖²
            g, f = oracle.inner(v, theta, zeta, "theta"), oracle.outer(v, theta, xi, "theta")
            rho = self.rho(top, g.value, sigma)
            d = axpy(2 * self.c_z * R, theta, axpy(rho, g.grad.theta, f.grad.theta))
            theta = stepped(problem, theta, self.damped(rho, d), metric.theta)
        g, f = oracle.inner(v, theta, zeta, "v"), oracle.outer(v, theta, xi, "v")  # line 3
        rho = self.rho(top, g.value, sigma)
        d = self.damped(rho, axpy(rho, sub(g.grad.v, g_z.grad.v), f.grad.v))
        info = Info(f.value, g.value, g.value - g_z.value, rho)
        return Step(Pair(d, ()), {"z": z, "k": (k + 1,)}, info, new_theta=theta)

    def factor(self, k: Tensor) -> Tensor:
        """R_k."""
        match self.schedule:
            case "log":
                R = 1 / (1.1 * (k + 1)).log()  # noqa: N806
            case "linear":
                R = 1 / (1.1 * (k + 1))  # noqa: N806
            case "power1":
                R = 1.1 ** -(k + 1)  # noqa: N806
            case "power2":
                R = (k + 1) ** -1.1  # noqa: N806
            case "constant":
                R = torch.full_like(k, 1 / math.log(1.1 * ((self.steps or 1) + 1)))  # noqa: N806
        return R.clamp(min=1e-8)

    def rho(self, top: Tensor, g: Tensor, sigma: Tensor) -> Tensor:
        """The weight of the constraint g ≤ g̃."""
        if self.weight == "published":
            return sigma / (self.eps + top)
        s = (top - g.double()) / sigma
        return torch.where(s >= 1, 1 / s.clamp(min=1), 2 - s)

    def damped(self, rho: Tensor, d: Leaves) -> Leaves:
        """d / max(ρ, 1)."""
        return d if self.weight == "published" else scale(1 / rho.clamp(min=1), d)


def stepped(problem: Problem, theta: Leaves, direction: Leaves, rates: tuple[float, ...]) -> Leaves:
    """θ after one plain gradient step with the step size of each leaf, projected."""
    return projected(problem, tuple(torch.sub(x, d, alpha=r) for x, d, r in zip(theta, direction, rates, strict=True)))
