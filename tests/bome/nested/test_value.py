"""The value function: its value by brute force, its gradient by finite differences, its memory."""

from typing import Any

import pytest
import torch
from torch import Tensor

from bome import Problem, box
from bome.nested.descent import Place, Rules, descend
from bome.nested.sets import place
from bome.nested.value import Memory, Start, Units, ValueFunction
from tests.support.nested import quadratic, two_wells, value_of, vector


def half(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
    return theta - v - 0.2


def disc(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
    return (theta.square().sum() + 0.3 * v[0] - 1.2).reshape(1)


PROBLEMS = {
    "free": quadratic(),
    "box": quadratic(project_theta=box(-0.4, 0.4)),
    "inner constraints": quadratic(inner_constraints=half),
    "bent constraints": quadratic(inner_constraints=disc),
    "outer constraints": quadratic(outer_constraints=half, inner_constraints=disc),
    "equality": quadratic(inner_equalities=lambda v, theta, b: theta.sum() - v.sum()),
    "box and constraints": quadratic(project_theta=box(-0.4, 0.4), inner_constraints=half),
}


@pytest.fixture(autouse=True)
def _precise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bome.nested.value.TOLERANCE", 1e-10)
    monkeypatch.setattr("bome.nested.value.GAIN", 0.0)
    monkeypatch.setattr("bome.nested.value.STEPS", 400)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("sigma", [0.7, 30.0])
def test_its_gradient_is_that_of_finite_differences(name: str, sigma: float) -> None:
    value = value_of(PROBLEMS[name])
    v, hint = vector(0.37, 0.21), vector(0.29, 0.29)
    memory = Memory((Start(hint),), (Start(hint),))

    def psi(at: Tensor) -> float:
        return value.at(at, hint + (at - v).sum() / 2, sigma, memory).place.value

    found = value.at(v, hint, sigma, memory).place
    assert torch.equal(found.x, v)
    steps = 1e-5 * torch.eye(2, dtype=torch.float64)
    expected = [(psi(v + step) - psi(v - step)) / 2e-5 for step in steps]
    assert found.grad.tolist() == pytest.approx(expected, rel=1e-3, abs=2e-4)


def test_its_value_is_that_of_brute_force_over_two_wells() -> None:
    value, sigma = value_of(two_wells()), 5.0
    v, thetas = vector(0.8), torch.linspace(-2, 2, 40001, dtype=torch.float64)
    g = (thetas**2 - 1) ** 2 + 0.25 * v * thetas
    f = (v - 0.5) ** 2 + thetas
    expected = float((f + sigma * g).min() - sigma * g.min())
    starts = [vector(-1.2), vector(1.1)]
    found = value.at(v, vector(0.9), sigma, Memory(), starts)
    assert found.place.value == pytest.approx(expected, abs=1e-6)
    assert len(found.z) == 2
    again = value.at(v + 0.01, vector(0.9), sigma, found.memory)
    assert [float(z.start.theta) < 0 for z in again.z] == [True, False]


def test_where_no_theta_is_feasible_there_is_no_value() -> None:
    def never(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return 1 + theta.square().sum().reshape(1)

    value = value_of(quadratic(inner_constraints=never))
    assert value.at(vector(0.0, 0.0), vector(0.0, 0.0), 1.0, Memory()).place.value == float("inf")


def test_the_multipliers_are_those_of_the_closed_form() -> None:
    """min ½(θ − 3)² with θ ≤ 1: λ = 2."""

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return 0.5 * (theta - 3).square().sum() + 0 * v.sum()

    problem = Problem(inner, inner, vector(0.0), vector(0.0), inner_constraints=lambda v, theta, b: theta - 1)
    (found,) = value_of(problem).lower(vector(0.0), [Start(vector(0.0))], 1.0)
    assert found.multipliers.tolist() == pytest.approx([2], abs=1e-8)


def test_distinct_minimisers_are_apart_and_sorted() -> None:
    value: ValueFunction = value_of(two_wells(), Units(reach=2.0))
    starts = [Start(vector(x)) for x in (0.9, -1.1, 1.2, -0.8)]
    found = value.distinct(value.lower(vector(0.8), starts, 1.0), 3)
    assert [float(each.start.theta) < 0 for each in found] == [True, False]
    assert found[0].value < found[1].value


def test_a_descent_inside_linearised_constraints_ends_where_it_should() -> None:
    """The point of the disc that is nearest to (3, 4): θ = (3, 4)/5, for any start."""

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return 0.5 * (theta - vector(3, 4)).square().sum() + 0 * v.sum()

    unit = Problem(
        inner, inner, vector(0.0), vector(0.0, 0.0), inner_constraints=lambda v, y, b: y.square().sum().reshape(1) - 1
    )
    value = value_of(unit)
    losses, v = value.losses, vector(0.0)
    region = value.sets.inside(v, "inner")

    def look(theta: Tensor) -> Place:
        return place(theta, losses.weighted(0.0, 1.0, v, theta), 1e-9)

    for start in (vector(0.1, 0.0), vector(5.0, -7.0)):
        found = descend(look(start), region, Rules(100, 1e-7), 1.0, 10.0, look)
        assert found.ended == "stationary"
        assert found.place.x.tolist() == pytest.approx([0.6, 0.8], abs=1e-4)
        assert found.heading.multipliers.tolist() == pytest.approx([2.0], abs=1e-4)
