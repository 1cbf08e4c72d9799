"""Heating three rooms in a row by one heater in the first, at the least discomfort and cost."""

from typing import Any

import torch
from torch import Tensor

from bome import Problem
from bome.methods import Leaves, Pair
from bome.tasks import Optimum, Settings, Task, choose, norm

PRICES = {"usual": 0.1, "cheap": 0.0, "dear": 1.0}
STARTS = {"cold": 0.0, "warm": 20.0}
WANTED = (21.0, 19.0, 18.0)


def describe(point: Pair) -> dict[str, float]:
    """What matters of a point: the power of the heater, and the temperature of the coldest room."""
    return {"power": float(point.v[0]), "coldest": float(point.theta[0].min())}


def rooms(variant: str = "usual", start: str = "cold", seed: int = 0, dtype: torch.dtype = torch.float64) -> Task:
    """min ½‖θ − wanted‖² + ½ price v²  subject to  θ = argmin ½ θᵀKθ − v θ_1: the temperatures that a heater of power
    v holds, where K has the losses to the outside and the flow between neighbours.

    With s = K⁻¹e_1 the inner solution is θ = v s, and v* = ⟨s, wanted⟩ / (⟨s, s⟩ + price).

    Args:
        variant: the price of heat: "usual" (0.1), "cheap" (0) or "dear" (1).
        start: "cold" (all is 0) or "warm" (all is 20).
        seed: without effect, the task has no random part.
        dtype: of the variables.
    """  # noqa: D205
    price = choose("variant of rooms", variant, PRICES)
    value = choose("start of rooms", start, STARTS)
    k = torch.tensor([[2.0, -1.0, 0.0], [-1.0, 3.0, -1.0], [0.0, -1.0, 2.0]], dtype=dtype)
    wanted = torch.tensor(WANTED, dtype=dtype)
    s = torch.linalg.inv(k)[:, 0]
    best = s @ wanted / (s @ s + price)

    def outer(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return 0.5 * (theta - wanted).square().sum() + 0.5 * price * v.square()

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return 0.5 * theta @ k @ theta - v * theta[0]

    def solve_inner(v: Leaves, theta: Leaves) -> Leaves:
        return (v[0] * s,)

    return Task(
        name="rooms",
        variant=variant,
        start=start,
        problem=Problem(outer, inner, torch.full((), value, dtype=dtype), torch.full((3,), value, dtype=dtype)),
        settings=Settings(steps=2000, inner_steps=10, inner_lr=0.2, outer_lr=0.02, theta_lr=0.02),
        optimum=Optimum(
            f=float(outer(best, best * s, None)),
            distance=lambda point: norm(point.v[0] - best, point.theta[0] - best * s),
            text=f"v = {best:.4g}, θ = v K⁻¹e_1",
            point=Pair((best,), (best * s,)),
        ),
        solve_inner=solve_inner,
        suggested={"capped": {"cap": 20.0}},  # K has curvatures up to 4, and 20 · 4 · 0.02 < 2
        observe=describe,
    )
