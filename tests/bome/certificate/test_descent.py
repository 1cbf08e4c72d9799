"""The descent without a step size: against closed forms and scipy."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from bome._typing import Leaves
from bome.certificate.descent import Place, descend, falls_on, shortest

F64 = torch.float64


def _everywhere(x: Leaves) -> Leaves:
    return x


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_a_bent_valley_is_followed_to_its_end_whatever_the_units(unit: float) -> None:
    """Rosenbrock's function from (−1.2, 1), as scipy has it."""

    def value(x: torch.Tensor) -> torch.Tensor:
        return unit * (100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2)

    def look(x: Leaves) -> Place:
        at = x[0].clone().requires_grad_()
        found = value(at)
        return Place(x, float(found.detach()), torch.autograd.grad(found, at))

    start = torch.tensor([-1.2, 1.0], dtype=F64)
    reached = descend(look, (start,), _everywhere, 0.1, 1e-14 * unit, 400)
    right = minimize(lambda x: float(value(torch.tensor(x))), start.numpy(), method="Nelder-Mead", tol=1e-12).x
    assert reached.settled
    np.testing.assert_allclose(reached.place.x[0].numpy(), right, atol=1e-5)


def test_it_stays_within_the_set_and_ends_at_its_best_point() -> None:
    """½‖x − (2, −3)‖² over [0, 1]² is least at (1, 0)."""
    centre, seen = torch.tensor([2.0, -3.0], dtype=F64), []

    def look(x: Leaves) -> Place:
        seen.append(x[0])
        return Place(x, float(0.5 * (x[0] - centre).square().sum()), (x[0] - centre,))

    reached = descend(look, (torch.full((2,), 0.5, dtype=F64),), lambda x: (x[0].clamp(0, 1),), 0.1, 1e-12, 50)
    assert reached.place.x[0].tolist() == [1.0, 0.0]
    assert reached.settled
    assert all(((x >= 0) & (x <= 1)).all() for x in seen)


def test_the_lowest_point_is_kept_looks_are_limited_and_an_overflow_is_no_end() -> None:
    """exp(−x) falls for ever; where it overflows the search goes back."""
    looks = []

    def look(x: Leaves) -> Place:
        looks.append(float(x[0]))
        value = torch.exp(-x[0]) if float(x[0]) < 5 else x[0] * float("inf")
        return Place(x, float(value), (-value,))

    reached = descend(look, (torch.zeros((), dtype=F64),), _everywhere, 100.0, 1e-12, 20)
    assert not reached.settled
    assert len(looks) == 21
    assert 0 < float(reached.place.x[0]) < 5
    assert not descend(
        lambda x: Place(x, float("nan"), (x[0] * float("nan"),)), (torch.ones(1),), _everywhere, 1, 1, 9
    ).settled


@pytest.mark.parametrize(
    ("loss", "falls"),
    [
        (lambda c: -c, True),
        (lambda c: -math.log(c), True),
        (lambda c: -(c**200), True),  # −∞ at the last place
        (lambda c: 1 / c, False),
        (lambda c: -math.sqrt(min(c, 12.0)), False),
        (lambda c: (c - 5) ** 2, False),
        (lambda c: c, False),
        (lambda c: math.nan, False),
    ],
)
def test_a_fall_without_end_does_not_slow_down(loss: Callable[[float], float], falls: bool) -> None:
    def value(c: float) -> float:
        try:
            return loss(c)
        except OverflowError:
            return -math.inf

    assert falls_on(value(1.0), value(10.0), value(100.0), least=0.01) is falls


def test_a_gradient_that_points_out_of_the_set_does_not_end_a_descent() -> None:
    """½(x₁ − 1)² + 10⁶ x₂ over x₂ ≥ 0, from (0, 0): nearly all of the gradient is taken back by the set."""

    def look(x: Leaves) -> Place:
        value = 0.5 * (x[0][0] - 1) ** 2 + 1e6 * x[0][1]
        return Place(x, float(value), (torch.stack([x[0][0] - 1, torch.tensor(1e6, dtype=F64)]),))

    def project(x: Leaves) -> Leaves:
        return (torch.stack([x[0][0], x[0][1].clamp(min=0.0)]),)

    reached = descend(look, (torch.zeros(2, dtype=F64),), project, size=0.1, gain=1e-6, steps=60)
    assert reached.settled
    assert reached.place.x[0].tolist() == pytest.approx([1.0, 0.0], abs=2e-3)


def test_between_the_gradients_of_a_kink_the_shortest_leads_down() -> None:
    """|x₁| + x₂ has the gradients (±1, 1) on both sides of x₁ = 0."""
    sides = [(torch.tensor([sign, 1.0], dtype=F64),) for sign in (1.0, -1.0)]
    assert shortest(sides)[0].tolist() == [0.0, 1.0]
    assert shortest(sides[:1])[0].tolist() == [1.0, 1.0]
    assert shortest([sides[0], sides[0]])[0].tolist() == [1.0, 1.0]
