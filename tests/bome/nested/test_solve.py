"""The solver with nothing to choose, on problems with solutions by hand."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import bome
from bome import Problem, ProblemError, ball, box
from bome.errors import UnsupportedError


def number(value: float) -> Tensor:
    return torch.tensor([value], dtype=torch.float64)


def _no_v(loss: Callable[[Tensor, Any], Tensor]) -> Callable[[Any, Tensor, Any], Tensor]:
    return lambda v, theta, batch: loss(theta, batch)


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


def test_without_v_the_best_of_the_minimisers_is_found() -> None:
    """g = (θ₁ − 1)² is least on a line, on which f = (θ₂ − 2)² + θ₁ is least at θ = (1, 2); with h also at θ₂ = 1.5."""

    def outer(y: Tensor, batch: Any) -> Tensor:
        return (y[1] - 2) ** 2 + y[0]

    def inner(y: Tensor, batch: Any) -> Tensor:
        return (y[0] - 1) ** 2

    line = bome.solve(Problem(_no_v(outer), _no_v(inner), theta=torch.zeros(2, dtype=torch.float64)), budget=1000)
    assert line.theta.tolist() == pytest.approx([1, 2], abs=1e-3)
    half = Problem(
        _no_v(outer),
        _no_v(inner),
        theta=torch.zeros(2, dtype=torch.float64),
        inner_constraints=lambda v, y, b: y[1:] - 1.5,
    )
    assert bome.solve(half, budget=1000).theta.tolist() == pytest.approx([1, 1.5], abs=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_modules_are_solved_in_their_precision(dtype: torch.dtype) -> None:
    """Ridge regression with a learned penalty, in closed form on a grid of it."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(20, 2, generator=generator, dtype=dtype)
    y = x @ torch.tensor([1.0, -1.0], dtype=dtype) + torch.randn(20, generator=generator, dtype=dtype)
    x_val = torch.randn(20, 2, generator=generator, dtype=dtype)
    y_val = x_val @ torch.tensor([0.5, -0.5], dtype=dtype) + torch.randn(20, generator=generator, dtype=dtype)
    net = nn.Linear(2, 1, bias=False, dtype=dtype)

    def outer(v: Tensor, net: nn.Module, batch: Any) -> Tensor:
        loss: Tensor = (net(x_val)[:, 0] - y_val).square().mean()
        return loss

    def inner(v: Tensor, net: nn.Module, batch: Any) -> Tensor:
        loss: Tensor = (net(x)[:, 0] - y).square().mean() + v.exp() * sum(p.square().sum() for p in net.parameters())
        return loss

    def refitted(v: float) -> float:
        w = torch.linalg.solve(x.T @ x / 20 + torch.eye(2, dtype=dtype) * math.exp(v), x.T @ y / 20)
        return float((x_val @ w - y_val).square().mean())

    solution = bome.solve(Problem(outer, inner, torch.zeros((), dtype=dtype), net, box(-6, 2)), budget=1500)
    assert solution.f == pytest.approx(min(refitted(-6 + k / 100) for k in range(801)), rel=1e-2)
    assert refitted(float(solution.v)) == pytest.approx(solution.f, rel=1e-2)
    assert solution.theta is net


@pytest.mark.parametrize("limits", [{"budget": 3}, {"seconds": 1e-9}])
def test_too_little_for_a_first_look_is_told(limits: dict[str, Any]) -> None:
    with pytest.raises(ProblemError, match="ended before the first v was looked at"):
        bome.solve(bounded(), **limits)


def test_what_is_no_problem_is_refused() -> None:
    with pytest.raises(ProblemError, match="problem must be a Problem, got function"):
        bome.solve(bounded)  # type: ignore[call-overload]


@pytest.mark.parametrize("loss", ["outer", "inner"])
def test_a_detached_loss_is_refused(loss: str) -> None:
    problem = bounded()
    whole = getattr(problem, loss)
    setattr(problem, loss, lambda x, y, batch: whole(x, y, batch).detach())
    with pytest.raises(ProblemError, match=f"no gradient flows from the {loss} loss"):
        bome.solve(problem, budget=500)
