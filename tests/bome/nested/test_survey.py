"""The survey of a start: nothing depends on the units of f, g, v and θ."""

from typing import Any

import pytest
import torch
from torch import Tensor

from bome import Problem, ball, box
from bome.nested.search import sets_of
from bome.nested.survey import Dice, Survey, ends, survey
from tests.support.nested import losses_of, vector


def _survey(problem: Problem) -> Survey:
    losses = losses_of(problem)
    return survey(losses, sets_of(losses), 0)


def _scaled(f: float = 1, g: float = 1, v: float = 1, theta: float = 1, start: float = 1.0) -> Problem:
    def outer(x: Tensor, y: Tensor, batch: Any) -> Tensor:
        return f * ((x / v - 1).square().sum() + (y / theta).sin().sum())

    def inner(x: Tensor, y: Tensor, batch: Any) -> Tensor:
        return g * ((y / theta - x / v).square().sum() + (y / theta).cos().sum())

    return Problem(outer, inner, v * vector(start, start), theta * vector(start, 0.0), None, box(-2 * theta, theta))


@pytest.mark.parametrize("start", [1.0, 0.0])
def test_units_follow_those_of_the_problem(start: float) -> None:
    one, other = _survey(_scaled(start=start)), _survey(_scaled(100, 0.01, 1000, 0.001, start))
    assert other.units.f == pytest.approx(100 * one.units.f)
    assert other.units.sigma == pytest.approx(1e4 * one.units.sigma)
    assert other.theta.reach == pytest.approx(0.001 * one.theta.reach)
    assert other.v.reach == pytest.approx(1000 * one.v.reach)
    assert other.units.slope == pytest.approx(1e5 * one.units.slope)


def test_the_end_of_a_set_is_found() -> None:
    found = ends(vector(1.0, 1.0), box(-1, 1), Dice(0))
    assert found is not None
    middle, reach = found
    assert reach == 2
    assert middle.tolist() == [0, 0]
    assert ends(vector(1.0, 1.0), box(0, torch.inf), Dice(0)) is None
    assert ends(vector(1.0, 1.0), lambda x: x, Dice(0)) is None
    assert ends(vector(0.0, 0.0), ball(3), Dice(0)) is not None


def test_equal_numbers_give_equal_points() -> None:
    x = vector(0.0, 0.0)
    assert torch.equal(Dice(1, 2).normal(x), Dice(1, 2).normal(x))
    assert not torch.equal(Dice(1, 2).normal(x), Dice(1, 3).normal(x))


@pytest.mark.parametrize("unit", [1.0, 100.0, 0.01])
def test_the_reach_of_v_has_the_unit_of_v(unit: float) -> None:
    """From v = 0 and θ = 0, where the gradients say nothing about it; scattered θ do."""

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        x = v / unit
        return (((theta - x) ** 2) * (1 + 0.1 * x) - x**2).sum()

    problem = Problem(lambda v, theta, b: (theta**2).sum(), inner, vector(0.0), vector(0.0), project_theta=box(-2, 3))
    losses = losses_of(problem)
    assert survey(losses, sets_of(losses), 0).v.reach / unit == pytest.approx(3, rel=0.9)
