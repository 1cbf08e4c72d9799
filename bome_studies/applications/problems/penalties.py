"""Twenty penalties: v has the logarithm of a penalty for each weight of a logistic regression on 40 rows."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from bome.problem import Problem
from bome.projections import box
from bome_studies.applications.problems.application import Application, First, Worth
from bome_studies.applications.problems.pictures import Pictures

FEATURES, TELLING, ROWS, JUDGES = 20, 3, 40, 200
LOW, START, HIGH = -8.0, -3.0, 1.0


def penalties(pool: Pictures, seed: int) -> Application:
    """v: 20 numbers; θ: 20 weights, in double precision."""
    draw = torch.Generator().manual_seed(seed)
    x, judge_x = (torch.randn(n, FEATURES, generator=draw, dtype=torch.float64) for n in (ROWS, JUDGES))
    noise = 0.5 * torch.randn(ROWS, generator=draw, dtype=torch.float64)
    side, judge_side = (x[:, :TELLING].sum(1) + noise).sign(), judge_x[:, :TELLING].sum(1).sign()
    v = torch.full((FEATURES,), START, dtype=torch.float64)

    def outer(v: Any, theta: Any, batch: Any) -> Tensor:
        return softplus(-judge_side * (judge_x @ theta)).mean()

    def inner(v: Any, theta: Any, batch: Any) -> Tensor:
        penalty: Tensor = (v.exp() * theta.square()).sum()
        return softplus(-side * (x @ theta)).mean() + penalty

    def worth(v: Tensor) -> Worth:
        if not bool(v.isfinite().all()):
            return Worth(float("inf"))
        theta = minimum(inner, v)
        wrong = (judge_x @ theta).sign() != judge_side
        return Worth(float(outer(v, theta, None)), 1 - float(wrong.double().mean()))

    def one_penalty() -> Worth:
        return min(worth(torch.full_like(v, value)) for value in torch.arange(LOW, HIGH + 0.25, 0.25).tolist())

    return Application(
        problem=Problem(outer, inner, v, torch.zeros(FEATURES, dtype=torch.float64), project_v=box(LOW, HIGH)),
        first=First(outer_lr=0.05),
        judge=lambda: worth(v),
        by_hand={"one penalty for all": one_penalty},
    )


def minimum(inner: Any, v: Tensor) -> Tensor:
    """θ*(v), by L-BFGS."""
    theta = torch.zeros(FEATURES, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [theta], max_iter=2000, tolerance_grad=1e-10, tolerance_change=0.0, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        loss: Tensor = inner(v, theta, None)
        (theta.grad,) = torch.autograd.grad(loss, theta)
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return theta.detach()
