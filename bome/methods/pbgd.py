r"""V-PBGD: penalty-based bilevel gradient descent with the value function (Shen and Chen, ICML 2023).

    for k = 0, 1, ...
        1:  ω = θ_k;   ω ← ω − α g_θ(v_k, ω),   T times                    (variant `warm`: from the ω of the last step)
        2:  δ = ∇f(v_k, θ_k) + γ_k ( g_v(v_k, θ_k) − g_v(v_k, ω) ,  g_θ(v_k, θ_k) )
        3:  (v, θ)_{k+1} = (v, θ)_k − ξ δ

| symbol | here | symbol | here |
|---|---|---|---|
| α, T | `inner.lr`, `inner.steps` | γ_k | `gamma`, or rising to it linearly over `ramp` steps |
| ω | the end of the look-ahead, θ^(T) | ξ | the learning rates of the two optimisers |

Cost per step: T + 1 evaluations of g and 1 of f, as the first gradient of line 1 is that of line 2; variant `warm`
T + 2 and 1. No second-order products. State: k, and ω where it is warm.

It is BOME with λ = γ_k in place of the dynamic barrier. A constant γ leaves a bias of O(1/γ), and ξγL ≤ 2 must hold.

Where published code differs: ω is warm with T = 1 (variant `warm`), γ rises from 0 (`ramp`), and the direction is
multiplied by min(1/γ, 1), which belongs to the learning rates here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from bome._checks import check_choice, check_count, check_positive
from bome._typing import State
from bome.core.barrier import Metric, euclidean, kkt_gradient
from bome.core.bounded import Bounded
from bome.core.trees import Pair, axpy, clone, number, sub
from bome.inner import InnerMap, check_inner
from bome.methods.base import Batches, Info, Method, Step
from bome.oracles.base import Oracle

Omega = Literal["restart", "warm"]
"""ω starts at θ_k in every step, or goes on from the last."""


@dataclass(frozen=True)
class PBGD(Method):
    """Gradient descent on f + γ (g − min g).

    Attributes:
        inner: α and T of line 1.
        gamma: γ, the weight of the penalty.
        ramp: over how many steps γ rises linearly from 0; 0 keeps it constant.
        omega: "restart" at θ_k in every step, or "warm".
    """

    inner: InnerMap
    gamma: float = 1.0
    ramp: int = 0
    omega: Omega = "restart"

    name: ClassVar[str] = "pbgd"
    chooses: ClassVar[bool] = True
    settles = "penalty"
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {"warm": {"omega": "warm"}}

    def __post_init__(self) -> None:
        check_inner(self.inner)
        check_positive("gamma (γ)", self.gamma)
        check_count("ramp", self.ramp, least=0)
        check_choice("omega", self.omega, Omega)

    def init(self, oracle: Oracle, point: Pair) -> State:
        """k = 0; a warm ω starts at θ_0."""
        omega = {"omega": clone(point.theta)} if self.omega == "warm" else {}
        return {"k": (number(0, point.theta[0]),), **omega}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One outer step."""
        (v, theta), (k,) = point, state["k"]
        new: State = {"k": (k + 1,)}
        g = oracle.inner(v, theta, batches.inner[0])
        if self.omega == "restart":  # line 1
            low = oracle.look_ahead(v, theta, g, self.inner, batches.inner)
            low_value, low_grad = low.value, low.grad.v
        else:
            new["omega"] = oracle.descend(v, state["omega"], self.inner, batches.inner)
            end = oracle.inner(v, new["omega"], batches.inner[0], "v")
            low_value, low_grad = end.value, end.grad.v
        f = oracle.outer(v, theta, batches.outer[0])
        dq = Pair(sub(g.grad.v, low_grad), g.grad.theta)  # line 2
        gamma = self.weight(k)
        delta = Pair(axpy(gamma, dq.v, f.grad.v), axpy(gamma, dq.theta, f.grad.theta))
        kkt = kkt_gradient(euclidean(f.grad, dq))
        sets = oracle.problem.project_v, oracle.problem.project_theta
        if any(sets):
            kkt = Bounded(point, f.grad, dq, metric, sets).balance()[1]
        info = Info(f.value, g.value, g.value - low_value, gamma, kkt)
        return Step(delta, new, info)  # line 3

    def weight(self, k: Tensor) -> Tensor:
        """γ_k."""
        return self.gamma * (k / self.ramp).clamp(max=1) if self.ramp else torch.full_like(k, self.gamma)
