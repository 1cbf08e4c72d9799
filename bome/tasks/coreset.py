"""Coreset selection: weigh four points so that their mean is as near as possible to a fifth one."""

from typing import Any

import torch
from torch import Tensor

from bome._checks import choose
from bome._typing import Leaves
from bome.core.trees import Pair
from bome.problem import Problem
from bome.tasks.task import Optimum, Settings, Task, norm

_X4 = {"code": (-3.0, -2.0), "paper": (-3.0, 2.0)}
_FACTOR = {"code": 0.1, "paper": 1.0}
_OPTIMUM = {"code": (1.8, 0.4), "paper": (3.0, 1.0)}
_WEIGHTS = {"code": (0.0, 0.8, 0.0, 0.2), "paper": (0.0, 1.0, 0.0, 0.0)}
_STARTS = {
    "code": {"a": (0.0, 3.0), "b": (-3.0, 1.0), "c": (3.5, -1.0)},
    "paper": {"a": (0.0, 3.0), "b": (-3.0, 1.0), "c": (3.5, 1.0)},
}


def coreset(variant: str = "code", start: str = "a", seed: int = 0, dtype: torch.dtype = torch.float64) -> Task:
    """min c ‖θ − x0‖²  subject to  θ = argmin ‖Xᵀσ(v) − θ‖²,  σ the softmax, v ∈ R⁴, θ ∈ R².

    x0 = (3, −2); the rows of X are (1, 3), (3, 1), (−2, 2) and x4. The solution θ* is the projection of x0 onto the
    convex hull of the rows; it lies on its boundary, so v* is at infinity and the distance is measured in θ alone.

    | variant | c | x4 | start "c" | θ* | weights | f* |
    |---|---|---|---|---|---|---|
    | code | 0.1 | (−3, −2) | (3.5, −1) | (1.8, 0.4) | (0, 0.8, 0, 0.2) | 0.72 |
    | paper | 1 | (−3, 2) | (3.5, 1) | (3, 1) | (0, 1, 0, 0) | 9 |

    The variants differ where the paper differs from its code (D1 x4, D2 c, D3 start "c"). With constant step sizes ξ
    BOME stops O(cξ) away from θ*: 0.02 with the code's c, 0.3 with the paper's. The code's ablation with T = 1 also
    uses α = 0.1 instead of 0.05 (D4).

    Args:
        variant: "code" or "paper".
        start: θ_0: "a" is (0, 3), "b" is (−3, 1), "c" is as in the table; v_0 = 0.
        seed: without effect, the task has no random part.
        dtype: of the variables.
    """
    x4 = choose("variant of coreset", variant, _X4)
    factor, best = _FACTOR[variant], torch.tensor(_OPTIMUM[variant], dtype=dtype)
    theta = torch.tensor(choose("start of coreset", start, _STARTS[variant]), dtype=dtype)
    points = torch.tensor([(1.0, 3.0), (3.0, 1.0), (-2.0, 2.0), x4], dtype=dtype)
    x0 = torch.tensor([3.0, -2.0], dtype=dtype)

    def outer(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return factor * (theta - x0).square().sum()

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        # a sum of products, not `@`, so that compilers fuse it with its neighbours
        return ((v.softmax(0)[:, None] * points).sum(0) - theta).square().sum()

    def solve_inner(v: Leaves, theta: Leaves) -> Leaves:
        return (v[0].softmax(0) @ points,)

    return Task(
        name="coreset",
        variant=variant,
        start=start,
        problem=Problem(outer, inner, torch.zeros(4, dtype=dtype), theta),
        settings=Settings(steps=5000, inner_steps=10, inner_lr=0.05, outer_lr=0.05, theta_lr=0.05, eta=0.5),
        optimum=Optimum(
            f={"code": 0.72, "paper": 9.0}[variant],
            distance=lambda point: norm(point.theta[0] - best),
            text=f"θ = ({best[0]:g}, {best[1]:g}), v at infinity",
            point=Pair((torch.tensor(_WEIGHTS[variant], dtype=dtype).log().clamp(-40),), (best,)),  # to rounding
        ),
        solve_inner=solve_inner,
        published={
            "bome": {"eps": 1e-4},
            "bsg1": {"eps": 1e-50},
            "bvfsm": {"c_z": 0.1, "c_ln": 0.1},
            "penalty": {"lam": 0.1, "epsilon": 0.01, "gamma": 0.01},
        },
    )
