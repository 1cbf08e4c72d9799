"""Shadow prices against finite differences of closed forms; ties."""

from typing import Any

import pytest
import torch
from torch import Tensor

import bome
from bome import Problem
from tests.support.nested import vector


def _priced(**constraints: Any) -> Problem:
    """f = (v − 2)² + (θ − 2)², g = (θ − v)²."""

    def outer(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return ((v - 2) ** 2 + (theta - 2) ** 2).sum()

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return ((theta - v) ** 2).sum()

    return Problem(outer, inner, vector(0.0), vector(0.0), **constraints)


PRICES: dict[str, tuple[str, Any, float, float]] = {
    # θ ≤ 1: F = (θ − 2)² with v = 2; relaxed by ε it is (1 − ε)²
    "inner": ("inner_constraints", lambda v, y, b: y - 1, 1.0, -2.0),
    # θ ≤ 1 asked for by the outer problem: θ = v = 1, F = 2 (1 − ε)²
    "outer on θ": ("outer_constraints", lambda v, y, b: y - 1, 2.0, -4.0),
    # v ≤ 1: the same
    "outer on v": ("outer_constraints", lambda v, y, b: v - 1, 2.0, -4.0),
    # v + θ = 3: v = θ = 3/2, F = ½; to the right side 3 + ε belongs F = ½ (1 − ε)²
    "equality": ("outer_equalities", lambda v, y, b: v + y - 3, 0.5, -1.0),
    # a constraint that does not bind
    "slack": ("inner_constraints", lambda v, y, b: y - 5, 0.0, 0.0),
}


@pytest.mark.parametrize("name", PRICES)
def test_prices_are_those_of_the_closed_form(name: str) -> None:
    kind, constraint, f, price = PRICES[name]
    solution = bome.solve(_priced(**{kind: constraint}), budget=900)
    assert solution.f == pytest.approx(f, abs=2e-3)
    assert solution.prices[kind].tolist() == pytest.approx([price], abs=0.03)


def test_prices_are_found_where_the_gradient_is_exactly_0() -> None:
    """v = 2 is hit to the last digit here; the price of θ ≤ 1 is −2 all the same."""
    solution = bome.solve(_priced(inner_constraints=lambda v, y, b: y - 1), budget=2_000, seed=0)
    assert float(solution.v) == pytest.approx(2, abs=1e-12)
    assert solution.prices["inner_constraints"].tolist() == pytest.approx([-2], abs=0.01)


def test_a_scaled_constraint_has_a_scaled_price() -> None:
    solution = bome.solve(_priced(inner_constraints=lambda v, y, b: 10 * (y - 1)), budget=900)
    assert solution.prices["inner_constraints"].tolist() == pytest.approx([-0.2], abs=0.003)


def test_a_steep_f_hides_no_tie() -> None:
    """g = (θ² − v)²: at v = 1 both θ = 1 and −1 are minima; f wants v = θ = 1, and is 4 at the other."""
    problem = Problem(
        lambda v, y, b: ((y - 1) ** 2 + (v - 1) ** 2).sum(),
        lambda v, y, b: ((y**2 - v) ** 2).sum(),
        vector(2),
        vector(0.5),
    )
    solution = bome.solve(problem)
    assert solution.ties is not None
    assert (solution.ties.best, solution.ties.worst) == pytest.approx((0, 4), abs=0.01)


def test_the_best_and_the_worst_inner_solution_are_told() -> None:
    """g = (θ₁² − 1)²: θ₁ = 1 and θ₁ = −1 are as good, and f wants −1."""

    def outer(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return (v**2).sum() + theta.sum()

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return ((theta**2 - 1) ** 2).sum() + 0 * v.sum()

    solution = bome.solve(Problem(outer, inner, vector(0.5), vector(0.5)), budget=2500)
    assert solution.f == pytest.approx(-1, abs=1e-3)
    assert solution.ties is not None
    assert solution.ties.worst == pytest.approx(1, abs=1e-2)
    assert "other inner solutions found have f up to 1" in solution.certificate.verdict
    assert torch.equal(solution.v, solution.found[0].v[0])
