r"""F2SA: fully first-order stochastic approximation (Kwon, Kwon, Wright, Nowak; ICML 2023).

    state: y = θ (near argmin f + λg), z (near argmin g), z = θ_0 at the start; λ
    for k = 0, 1, ...
        1:  z ← z − γ_k g_θ(v_k, z; ζ_t),                                    t = 0 .. T−1
            y ← y − α_k (f_θ(v_k, y; ω_t) + λ_k g_θ(v_k, y; ζ_{T+t}))
        2:  v_{k+1} = v_k − β_k (f_v(v_k, y; ω_T) + λ_k (g_v(v_k, y; ζ_2T) − g_v(v_k, z; ζ_2T)))
        3:  λ_{k+1} = λ_k + d_k

| symbol | here | symbol | here |
|---|---|---|---|
| T | `inner.steps` | ζ_0 .. ζ_2T, ω_0 .. ω_T | `batches.inner`, `batches.outer`, in this order |
| y, z | `theta`, `z` | λ_0 | `lam` |

| schedule | γ_k (z) | α_k (y) | β_k (v) | λ_k |
|---|---|---|---|---|
| "paper" | γ_0 (k+1)^{−4/7} | α_0 (k+1)^{−5/7} | β_0 (k+1)^{−5/7} | λ_0 (k+1)^{1/7} |
| "benchopt" | γ_0 (k+1)^{−4/7} | α_0 (k+1)^{−5/7} | β_0 (k+1)^{−4/7} | d_k = d_0 (k+1)^{−1/7} |
| "constant" | γ_0 | α_0 | β_0 | λ_0 |

γ_0 is `inner.lr`, α_0 and β_0 are the learning rates of the optimisers of θ and v, d_0 is `lam_step`; with benchopt's
increments λ_k grows like k^{6/7}. The paper's exponents are those for noise in both losses; there λ_k = γ_k / (2α_k),
that is λ_0 = γ_0 / (2α_0).

A step takes 2T + 1 independent inner batches and T + 1 outer ones; both terms of line 2 in g share one. Cost per step:
2T + 2 evaluations of g and T + 1 of f; no second-order products. State: z, λ and k.

With both inner problems solved the direction differs from the hypergradient by O(1/λ).

Where published code differs: benchopt's solver is variant `benchopt`. Against BOME: λ follows a schedule, and both
inner solutions persist.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from bome._checks import check_choice, check_positive
from bome._typing import State
from bome.core.barrier import Metric
from bome.core.trees import Pair, axpy, clone, number, scale, sub
from bome.inner import DifferentiableMap
from bome.methods.base import Batches, Info, Method, Step
from bome.methods.bvfsm import stepped
from bome.methods.trajectory import check_differentiable, projected
from bome.oracles.base import Oracle

Schedule = Literal["paper", "benchopt", "constant"]
"""The rows of the table."""


class Rates(NamedTuple):
    """The factors on the three step sizes in step k, and the multiplier of the next."""

    y: Tensor
    z: Tensor
    v: Tensor
    next_lam: Tensor


@dataclass(frozen=True)
class F2SA(Method):
    """Fully first-order stochastic approximation.

    Attributes:
        inner: γ_0 and T; GradientDescent (a map that ignores the size of gradients would ignore the schedule).
        lam: λ_0.
        schedule: "paper", "benchopt" or "constant", as in the table.
        lam_step: the increment of λ in the schedule "benchopt" at k = 0.
    """

    inner: DifferentiableMap
    lam: float = 1.0
    schedule: Schedule = "paper"
    lam_step: float = 0.1

    name: ClassVar[str] = "f2sa"
    chooses: ClassVar[bool] = True
    settles = "penalty"
    accuracy: ClassVar[tuple[str, ...]] = ("lam",)
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "benchopt": {"schedule": "benchopt"},
        "constant": {"schedule": "constant"},
    }

    def __post_init__(self) -> None:
        check_differentiable(self.name, self.inner)
        check_positive("lam (λ)", self.lam)
        check_positive("lam_step", self.lam_step)
        check_choice("schedule", self.schedule, Schedule)

    @property
    def inner_batches(self) -> int:
        """T for z, T for y and one for v."""
        return 2 * self.inner.steps + 1

    @property
    def outer_batches(self) -> int:
        """T for y and one for v."""
        return self.inner.steps + 1

    def theta_steps(self, k: int) -> int:
        """T in each step."""
        return k * self.inner.steps

    def init(self, oracle: Oracle, point: Pair) -> State:
        """z = θ_0, λ = λ_0."""
        k = number(0, point.theta[0])
        return {"z": clone(point.theta), "lam": (torch.full_like(k, self.lam),), "k": (k,)}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One outer step."""
        (v, y), z, (lam,), (k,) = point, state["z"], state["lam"], state["k"]
        rates, buffers, T = self.rates(k, lam), self.inner.start(z), self.inner.steps  # noqa: N806
        for t in range(T):  # line 1
            g = oracle.inner(v, z, batches.inner[t], "theta")
            z, buffers = self.inner.advance(z, scale(rates.z, g.grad.theta), buffers)
            z = projected(oracle.problem, z)
            g = oracle.inner(v, y, batches.inner[T + t], "theta")
            f = oracle.outer(v, y, batches.outer[t], "theta")
            d_y = axpy(lam, g.grad.theta, f.grad.theta)
            y = stepped(oracle.problem, y, scale(rates.y, d_y), metric.theta)
        g_y = oracle.inner(v, y, batches.inner[2 * T], "v")  # line 2
        g_z = oracle.inner(v, z, batches.inner[2 * T], "v")
        f = oracle.outer(v, y, batches.outer[T], "v")
        d_v = axpy(lam, sub(g_y.grad.v, g_z.grad.v), f.grad.v)
        new = {"z": z, "lam": (rates.next_lam,), "k": (k + 1,)}  # line 3
        info = Info(f.value, g_y.value, g_y.value - g_z.value, lam)
        return Step(Pair(scale(rates.v, d_v), ()), new, info, new_theta=y)

    def rates(self, k: Tensor, lam: Tensor) -> Rates:
        """The table's row, relative to γ_0, α_0 and β_0."""
        one = torch.ones_like(k)
        if self.schedule == "constant":
            return Rates(one, one, one, lam)
        y, z = (k + 1) ** (-5 / 7), (k + 1) ** (-4 / 7)
        if self.schedule == "paper":
            return Rates(y, z, y, self.lam * (k + 2) ** (1 / 7))
        return Rates(y, z, z, lam + self.lam_step * (k + 1) ** (-1 / 7))
