"""The bilinear saddle problem min_v max_θ vθ as a bilevel problem."""

from typing import Any

import torch
from torch import Tensor

from bome._checks import choose
from bome._typing import Leaves
from bome.core.trees import Pair
from bome.problem import Problem
from bome.projections import box
from bome.tasks.task import Optimum, Settings, Task, norm

BOUND = 10.0
"""Half the width of the box of variant "code"."""


def minimax(variant: str = "code", start: str = "a", seed: int = 0, dtype: torch.dtype = torch.float64) -> Task:
    """min vθ  subject to  θ ∈ argmin −vθ,  with scalar v and θ.

    The solutions are v = 0 with any θ, so f* = 0 and the distance is |v|; (0, 0) is the saddle point.

    Variants (D8): "code" keeps v and θ in [−10, 10], so θ*(v) = 10 sign v and the value of v is 10|v|; "paper" has no
    bounds, so g(v, ·) has a minimum only where v = 0 and there is no `solve_inner`.

    Args:
        variant: "code" or "paper".
        start: "a" is v_0 = θ_0 = 4.
        seed: without effect, the task has no random part.
        dtype: of the variables.
    """
    bounded = choose("variant of minimax", variant, {"code": True, "paper": False})
    value = choose("start of minimax", start, {"a": 4.0})
    project = box(-BOUND, BOUND) if bounded else None

    def outer(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return v * theta

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return -v * theta

    def solve_inner(v: Leaves, theta: Leaves) -> Leaves:
        return (torch.where(v[0] == 0, theta[0], BOUND * v[0].sign()),)  # at v = 0 every θ is a minimum

    return Task(
        name="minimax",
        variant=variant,
        start=start,
        problem=Problem(
            outer,
            inner,
            torch.tensor(value, dtype=dtype),
            torch.tensor(value, dtype=dtype),
            project_v=project,
            project_theta=project,
        ),
        settings=Settings(steps=200, inner_steps=10, inner_lr=0.05, outer_lr=0.05, theta_lr=0.05, eta=0.5),
        optimum=Optimum(
            f=0.0,
            distance=lambda point: norm(point.v[0]),
            text="v = 0 with any θ; saddle point (0, 0)",
            point=Pair((torch.zeros((), dtype=dtype),), (torch.zeros((), dtype=dtype),)),
        ),
        solve_inner=solve_inner if bounded else None,
        published={
            "bome": {"eps": 1e-8},
            "bsg1": {"eps": 1e-50},
            "bvfsm": {"c_z": 0.1, "c_ln": 1.0},
            "penalty": {"lam": 1.0, "epsilon": 0.1, "gamma": 0.01},
        },
    )
