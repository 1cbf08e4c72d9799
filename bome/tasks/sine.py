"""A multimodal inner problem: a minimum of g(v, ·) in every period of a sine."""

import math
from typing import Any

import torch
from torch import Tensor

from bome._checks import choose
from bome._typing import Leaves
from bome.core.trees import Pair
from bome.problem import Problem
from bome.tasks.task import Optimum, Settings, Task, norm

N, A, C = 2, 2.0, 2.0
"""The dimension of θ, and the constants a and c (the same for both coordinates)."""

_STARTS = {
    "three": (3.0, (3.0, 3.0)),
    "zero": (0.0, (0.0, 0.0)),
    "eight": (8.0, (8.0, 8.0)),
    "mixed": (0.0, (0.0, 8.0)),
}


def trough(phase: Tensor) -> Tensor:
    """The minimum of the sine, −π/2 + 2kπ, whose basin the phase lies in: the nearest one."""
    return 2 * math.pi * torch.round((phase + math.pi / 2) / (2 * math.pi)) - math.pi / 2


def sine(variant: str = "code", start: str = "three", seed: int = 0, dtype: torch.dtype = torch.float64) -> Task:
    """min (v − a)² + ‖θ − a − c‖²  subject to  θ ∈ argmin Σ_i sin(v + θ_i − c),  v ∈ R, θ ∈ R², a = c = 2.

    From the demonstration of BVFSM. With C the trough −π/2 + 2kπ nearest to 2a, the global solution is

        v* = ((1 − n)a + nC) / (1 + n) = 2.475,   θ_i* = C + c − v* = 4.237,   f* = n(C − 2a)² / (1 + n) = 0.338.

    Each k gives a local solution, so that the start decides which one a method finds; `solve_inner` gives the
    attraction point θ◇, the minimum of the basin that θ lies in. The local PL condition fails only near maxima. The
    curvature of g in (v, θ) is at most n + 1 = 3, so step sizes should be at most 1/3. This task is not in the paper;
    the only variant is called "code" as everywhere.

    Args:
        variant: "code".
        start: (v, θ_1, θ_2): "three" (3, 3, 3), "zero" (0, 0, 0), "eight" (8, 8, 8) or "mixed" (0, 0, 8), where the
            two coordinates of θ lie in different basins.
        seed: without effect, the task has no random part.
        dtype: of the variables.
    """
    choose("variant of sine", variant, {"code": True})
    start_v, start_theta = choose("start of sine", start, _STARTS)
    nearest = float(trough(torch.tensor(2 * A, dtype=torch.float64)))
    best_v = ((1 - N) * A + N * nearest) / (1 + N)
    best_theta = nearest + C - best_v

    def outer(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return (v - A).square() + (theta - A - C).square().sum()

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return torch.sin(v + theta - C).sum()

    def solve_inner(v: Leaves, theta: Leaves) -> Leaves:
        return (trough(v[0] + theta[0] - C) + C - v[0],)

    return Task(
        name="sine",
        variant=variant,
        start=start,
        problem=Problem(outer, inner, torch.tensor(start_v, dtype=dtype), torch.tensor(start_theta, dtype=dtype)),
        settings=Settings(steps=500, inner_steps=50, inner_lr=0.3, outer_lr=0.05, theta_lr=0.05, eta=0.5),
        optimum=Optimum(
            f=N * (nearest - 2 * A) ** 2 / (1 + N),
            distance=lambda point: norm(point.v[0] - best_v, point.theta[0] - best_theta),
            text=f"v = {best_v:.4g}, θ = ({best_theta:.4g}, {best_theta:.4g})",
            point=Pair((torch.tensor(best_v, dtype=dtype),), (torch.full((N,), best_theta, dtype=dtype),)),
        ),
        solve_inner=solve_inner,
    )
