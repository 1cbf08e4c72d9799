"""A problem without lower-level singleton (LLS): one coordinate of θ is free in the inner problem."""

from typing import Any

import torch
from torch import Tensor

from bome._checks import choose
from bome._typing import Leaves, Loss
from bome.core.trees import Pair
from bome.problem import Problem
from bome.projections import box
from bome.tasks.task import Optimum, Settings, Task, norm

BOUND = 100.0
"""Variant "code" keeps θ in [−100, 100]²."""


def lls(variant: str = "code", start: str = "a", seed: int = 0, dtype: torch.dtype = torch.float64) -> Task:
    """v ∈ R, θ ∈ R², and g(v, ·) is minimal wherever θ_1 = v, whatever θ_2 is.

    | variant | f | g | solutions | f* |
    |---|---|---|---|---|
    | code | ½(v − θ_2)² + ½(θ_1 − 1)² | ½θ_1² − vθ_1 | v = 1, θ = (1, 1) | 0 |
    | corrected | ‖θ − (1, v)‖² | (θ_1 − v)² | v = 1, θ = (1, 1) | 0 |
    | paper | ‖θ − (v, 1)‖² | (θ_1 − v)² | any v, θ = (v, 1) | 0 |

    The paper's f is a misprint for the corrected one: as printed every feasible v is a solution (D9). The corrected
    losses are twice the code's (up to a term of g in v), so that they oscillate at its step size 0.5. The code runs
    T = 1, the paper says T = 10 (D10).

    Args:
        variant: "code", "paper" or "corrected".
        start: "a" is v_0 = 0, θ_0 = (0, 0).
        seed: without effect, the task has no random part.
        dtype: of the variables.
    """
    outer, inner, settings = choose("variant of lls", variant, _VARIANTS)
    value = choose("start of lls", start, {"a": 0.0})
    bounded = variant == "code"
    one = Pair((torch.ones((), dtype=dtype),), (torch.ones(2, dtype=dtype),))

    def solve_inner(v: Leaves, theta: Leaves) -> Leaves:
        first = v[0].clamp(-BOUND, BOUND) if bounded else v[0]
        return (torch.stack([first, theta[0][1]]),)  # θ_2 stays where it is: every value is a minimum

    return Task(
        name="lls",
        variant=variant,
        start=start,
        problem=Problem(
            outer,
            inner,
            torch.tensor(value, dtype=dtype),
            torch.full((2,), value, dtype=dtype),
            project_theta=box(-BOUND, BOUND) if bounded else None,
        ),
        settings=settings,
        optimum=Optimum(0.0, _distance_to_line, "any v, θ = (v, 1)", one)
        if variant == "paper"
        else Optimum(0.0, _distance_to_point, "v = 1, θ = (1, 1)", one),
        solve_inner=solve_inner,
        published={
            "bome": {"eps": 1e-8},
            "bsg1": {"eps": 1e-8},
            "bvfsm": {"c_z": 0.1, "c_ln": 0.001},
            "penalty": {"lam": 0.1, "epsilon": 0.1, "gamma": 0.01},
        },
    )


def _outer_code(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
    return 0.5 * (v - theta[1]).square() + 0.5 * (theta[0] - 1).square()


def _inner_code(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
    return 0.5 * theta[0].square() - v * theta[0]


def _outer_paper(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
    return (theta[0] - v).square() + (theta[1] - 1).square()


def _outer_corrected(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
    return (theta[0] - 1).square() + (theta[1] - v).square()


def _inner_square(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
    return (theta[0] - v).square()


_VARIANTS: dict[str, tuple[Loss, Loss, Settings]] = {
    "code": (_outer_code, _inner_code, Settings(2000, 1, inner_lr=0.5, outer_lr=0.5, theta_lr=0.5)),
    "paper": (_outer_paper, _inner_square, Settings(2000, 10, inner_lr=0.5, outer_lr=0.5, theta_lr=0.5)),
    "corrected": (_outer_corrected, _inner_square, Settings(2000, 10, inner_lr=0.2, outer_lr=0.2, theta_lr=0.2)),
}


def _distance_to_point(point: Pair) -> float:
    return norm(point.v[0] - 1, point.theta[0] - 1)


def _distance_to_line(point: Pair) -> float:
    """To {(t, (t, 1))}: the difference of v and θ_1 is shared equally by the nearest t."""
    v, theta = point.v[0], point.theta[0]
    return norm((theta[0] - v) / 2**0.5, theta[1] - 1)
