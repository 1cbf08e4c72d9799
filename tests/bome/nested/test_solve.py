"""The solver with nothing to choose, on problems with solutions by hand."""

from typing import Any

import pytest
import torch
from torch import Tensor

import bome
from bome import Problem, ProblemError, ball, box
from bome.errors import UnsupportedError


def number(value: float) -> Tensor:
    return torch.tensor([value], dtype=torch.float64)


def bounded() -> Problem:
    """f = x + y², g = (y − x)², x in [1, 2]: x = y = 1."""

    def outer(x: Tensor, y: Tensor, batch: Any) -> Tensor:
        return (x + y**2).sum()

    def inner(x: Tensor, y: Tensor, batch: Any) -> Tensor:
        return ((y - x) ** 2).sum()

    return Problem(outer, inner, number(2.0), number(2.0), project_v=box(1, 2))


def test_an_active_bound_is_no_obstacle() -> None:
    solution = bome.solve(bounded(), budget=1500)
    assert solution.f == pytest.approx(2, abs=1e-3)
    assert float(solution.v) == pytest.approx(1, abs=1e-3)
    assert float(solution.theta) == pytest.approx(1, abs=1e-3)
    assert solution.certificate.verdict.startswith("solved")
    assert sum(solution.spent.values()) <= 1500
    assert solution.found[0].runs >= 2


def test_constraints_have_shadow_prices() -> None:
    """min (x − 2)² + (y − 2)² with y = argmin (y − x)² : y ≤ 1 + ε, x + y ≤ 3: x = 2, y = 1, F = 1 at ε = 0."""

    def outer(x: Tensor, y: Tensor, batch: Any) -> Tensor:
        return ((x - 2) ** 2 + (y - 2) ** 2).sum()

    def inner(x: Tensor, y: Tensor, batch: Any) -> Tensor:
        return ((y - x) ** 2).sum()

    problem = Problem(outer, inner, number(0.0), number(0.0), inner_constraints=lambda x, y, b: y - 1)
    solution = bome.solve(problem, budget=2000)
    assert solution.f == pytest.approx(1, abs=1e-3)
    assert solution.prices["inner_constraints"].tolist() == pytest.approx([-2], abs=0.02)


def test_what_is_not_there_yet_is_refused() -> None:
    with pytest.raises(ProblemError, match="data must be Data"):
        bome.solve(bounded(), data=3)  # type: ignore[call-overload]
    problem = bounded()
    losses = problem.outer, problem.inner
    both = Problem(*losses, number(1.0), number(1.0), ball(1), inner_constraints=lambda x, y, b: y)
    with pytest.raises(UnsupportedError, match="constraints"):
        bome.solve(both)
