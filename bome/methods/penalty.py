r"""Penalty: augmented Lagrangian of the inner optimality condition g_θ = 0 (Mehra and Hamm, 2021).

    state: ν = ν_0 in every entry, γ, ε, λ, r = 1
    for k = 0, 1, ...
        1:  θ ← θ − r ξ_θ d_θ,   d_θ = f_θ + H(ν + γ g_θ) + λ g_θ,                     T times
        2:  v_{k+1} = v_k − r ξ_v d_v,   d_v = f_v + B(ν + γ g_θ)  at (v_k, θ),   θ_{k+1} = θ
        3:  if ‖d_θ‖² + ‖d_v‖² < ε²  (d_θ of the last inner step):
                γ ← 1.1 γ,  ε ← 0.9 ε,  λ ← 0.9 λ,  r ← 0.9 r,  ν ← ν + γ g_θ

d_θ is the gradient of f + ⟨ν, g_θ⟩ + (γ/2)‖g_θ‖² + λg in θ, and d_v that of the same without λg in v: H = ∇²_θθ g and
B = ∇²_vθ g.

| symbol | here | symbol | here |
|---|---|---|---|
| T | `inner.steps` | ν_0, γ, ε, λ at the start | `nu`, `gamma`, `epsilon`, `lam` |
| ξ_v, ξ_θ | the learning rates of the two optimisers | r | `rate` |
| Hz, Bz | `pull(z, "theta")`, `pull(z, "v")` | ν + γ g_θ | `multiplier` |

Cost per step: T + 1 evaluations of g, T + 1 of f, T Hessian-vector products and 1 cross product. State: ν, of the size
of θ, and four numbers. The step size of `inner` is not used: line 1 moves θ with ξ_θ.

When to use it: as a baseline. The test of line 3 seldom holds with few inner steps, so that γ stays near its start and
the end point depends on it. Where f = −g and λ = 1, θ does not move at all.

Where we differ from the paper's code: it applies Adam to both lines and squares the norms of line 3 once more.

Where the code of the BOME authors differs (variant `published`): ν is divided by the number n of entries of θ, since
the multiplier term is mean(ν ⊙ g_θ) (in their regularisation task it is the sum); ν_0 = 1e-4. Optimisers with momentum
are made anew at line 3 there; here their buffers stay.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from bome._checks import check_choice, check_nonnegative, check_positive
from bome._typing import Leaves, State
from bome.core.barrier import Metric
from bome.core.trees import Pair, axpy, dot, number, scale
from bome.inner import InnerMap, check_inner
from bome.methods.base import Batches, Info, Method, Step, second_order
from bome.methods.bvfsm import stepped
from bome.methods.trajectory import check_steps
from bome.oracles.base import Needs, Oracle

GROW, SHRINK = 1.1, 0.9
"""The factors of line 3."""

Pairing = Literal["sum", "mean"]
"""⟨ν, g_θ⟩ as a sum over entries, or as their mean."""


@dataclass(frozen=True)
class Penalty(Method):
    """Augmented Lagrangian of g_θ = 0.

    Attributes:
        inner: gives T.
        lam: λ at the start.
        epsilon: ε at the start.
        gamma: γ at the start.
        nu: every entry of ν at the start.
        pairing: ⟨ν, g_θ⟩ is a "sum" over entries, or a "mean" as the BOME authors have it.
    """

    inner: InnerMap
    lam: float = 0.01
    epsilon: float = 0.01
    gamma: float = 0.01
    nu: float = 1e-6
    pairing: Pairing = "sum"

    name: ClassVar[str] = "penalty"
    chooses: ClassVar[bool] = True
    accuracy: ClassVar[tuple[str, ...]] = ("inner", "gamma")
    bias: ClassVar[str] = "O(1/γ), and γ seldom grows"
    requires: ClassVar[Needs] = Needs.FIRST_ORDER | Needs.HVP
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {"published": {"nu": 1e-4, "pairing": "mean"}}

    def __post_init__(self) -> None:
        check_inner(self.inner)
        check_steps(self.name, self.inner)
        check_positive("epsilon (ε)", self.epsilon)
        check_positive("gamma (γ)", self.gamma)
        for name, value in (("lam (λ)", self.lam), ("nu (ν)", self.nu)):
            check_nonnegative(name, value)
        check_choice("pairing", self.pairing, Pairing)

    def theta_steps(self, k: int) -> int:
        """T in each step."""
        return k * self.inner.steps

    def init(self, oracle: Oracle, point: Pair) -> State:
        """ν_0 in every entry, and the coefficients γ, ε, λ, r."""
        start = (self.gamma, self.epsilon, self.lam, 1.0)
        coefficients = tuple(number(x, point.theta[0]) for x in start)
        return {"nu": tuple(torch.full_like(x, self.nu) for x in point.theta), "coefficients": coefficients}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One outer step."""
        (v, theta), nu, (gamma, epsilon, lam, rate) = point, state["nu"], state["coefficients"]
        oracle, zeta, xi = second_order(oracle), batches.inner[0], batches.outer[0]
        for _ in range(self.inner.steps):  # line 1
            g = oracle.gradient_map(v, theta, zeta)
            f = oracle.outer(v, theta, xi, "theta")
            curved = g.pull(self.multiplier(nu, gamma, g.value), "theta").theta  # H(ν + γ g_θ)
            d_theta = axpy(1.0, curved, axpy(lam, g.value, f.grad.theta))
            theta = stepped(oracle.problem, theta, scale(rate, d_theta), metric.theta)
        g = oracle.gradient_map(v, theta, zeta)  # line 2
        f = oracle.outer(v, theta, xi, "v")
        d_v = axpy(1.0, g.pull(self.multiplier(nu, gamma, g.value), "v").v, f.grad.v)
        solved = dot(d_theta, d_theta) + dot(d_v, d_v) < epsilon**2  # line 3
        gamma = torch.where(solved, GROW * gamma, gamma)
        epsilon, lam, new_rate = (torch.where(solved, SHRINK * x, x) for x in (epsilon, lam, rate))
        nu = axpy(torch.where(solved, gamma, 0.0), g.value, nu)
        new = {"nu": nu, "coefficients": (gamma, epsilon, lam, new_rate)}
        return Step(Pair(scale(rate, d_v), ()), new, Info(f.value), new_theta=theta)

    def multiplier(self, nu: Leaves, gamma: Tensor, g_theta: Leaves) -> Leaves:
        """ν + γ g_θ, or ν/n + γ g_θ."""
        n = sum(x.numel() for x in nu) if self.pairing == "mean" else 1
        return axpy(gamma, g_theta, scale(1 / n, nu))
