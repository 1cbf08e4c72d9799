"""Small problems for the solver with nothing to choose, and its parts made ready."""

from typing import Any

import torch
from torch import Tensor

from bome import Problem
from bome.nested.losses import Losses, Meter
from bome.nested.search import sets_of
from bome.nested.value import Units, ValueFunction
from bome.oracles import make


def vector(*entries: float) -> Tensor:
    return torch.tensor(entries, dtype=torch.float64)


def losses_of(problem: Problem, limit: float = float("inf")) -> Losses:
    return Losses(problem, make(problem, "auto"), Meter(limit))


def value_of(problem: Problem, units: Units | None = None) -> ValueFunction:
    losses = losses_of(problem)
    return ValueFunction(losses, sets_of(losses), units or Units())


def quadratic(project_v: Any = None, project_theta: Any = None, **constraints: Any) -> Problem:
    """f = ½‖v − (1, 2)‖² + ½‖θ − (2, −1)‖², g = ½‖θ − Av‖² + ½ ⟨θ, Bθ⟩."""
    a = torch.tensor([[1.0, 0.5], [-0.3, 2.0]], dtype=torch.float64)
    b = torch.tensor([[0.5, 0.2], [0.2, 1.0]], dtype=torch.float64)

    def outer(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return 0.5 * (v - vector(1, 2)).square().sum() + 0.5 * (theta - vector(2, -1)).square().sum()

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return 0.5 * (theta - a @ v).square().sum() + 0.5 * theta @ b @ theta

    return Problem(outer, inner, vector(0.3, -0.2), vector(0.5, 0.4), project_v, project_theta, **constraints)


def two_wells(start: float = 0.8) -> Problem:
    """f = (v − 0.5)² + θ, g = (θ² − 1)² + v θ / 4: the lower well is at θ < 0 where v > 0."""

    def outer(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return ((v - 0.5) ** 2 + theta).sum()

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return ((theta**2 - 1) ** 2 + 0.25 * v * theta).sum()

    return Problem(outer, inner, vector(start), vector(0.9))
