"""Implicit differentiation where bounds on θ are active, against finite differences of F and on a problem of BOLIB."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim import SGD

from bome import GradientDescent, Problem
from bome.errors import UnsupportedError
from bome.methods import (
    AIDCG,
    AIDFP,
    DARTS,
    ITD,
    MRBO,
    SABA,
    SAMA,
    SOBA,
    VRBO,
    Batches,
    Method,
    Metric,
    Reverse,
    StocBiO,
)
from bome.methods.free import Free
from bome.oracles import AutogradOracle
from bome.projections import box, simplex
from bome.stepper import Stepper
from bome.tasks import TASKS

H = torch.tensor([[2.0, 0.5, 0.3], [0.5, 1.5, 0.2], [0.3, 0.2, 1.0]], dtype=torch.float64)
C = torch.tensor([[1.0, 0.0], [0.5, 1.0], [-1.0, 2.0]], dtype=torch.float64)
INNER = GradientDescent(0.3, 120)


def outer(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
    return (theta - torch.tensor([1.0, -1.0, 2.0], dtype=torch.float64)).square().sum() + v[0] * theta.sum()


def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
    return 0.5 * theta @ H @ theta - theta @ (C @ v)


def problem() -> Problem:
    """At this v the first entry of θ*(v) is between its bounds, the second at its upper and the third at its lower."""
    v = torch.tensor([0.7, 0.3], dtype=torch.float64)
    limits = box(
        torch.tensor([-9.0, -9.0, 0.0], dtype=torch.float64), torch.tensor([9.0, 0.1, 9.0], dtype=torch.float64)
    )
    return Problem(outer, inner, v, torch.zeros(3, dtype=torch.float64), project_theta=limits)


def worth(v: Tensor) -> float:
    """F(v), by an inner descent of its own."""
    theta = torch.zeros(3, dtype=torch.float64)
    for _ in range(200):
        theta = theta - 0.3 * (H @ theta - C @ v)
        theta = torch.stack([theta[0], theta[1].clamp(max=0.1), theta[2].clamp(min=0)])
    return float(outer(v, theta, None))


@pytest.mark.parametrize(
    "method",
    [AIDCG(INNER), StocBiO(INNER, Q=120, draw="one"), AIDFP(INNER, K=120), ITD(INNER), Reverse(INNER, K=120)],
    ids=lambda method: method.name,
)
def test_the_direction_is_the_derivative_of_f_at_the_inner_solution(method: Method) -> None:
    made = problem()
    v, step = made.point.v[0].clone(), 1e-5
    units = torch.eye(2, dtype=torch.float64)
    expected = [(worth(v + step * unit) - worth(v - step * unit)) / (2 * step) for unit in units]
    batches = Batches(inner=(None,) * method.inner_batches, outer=(None,) * method.outer_batches)
    oracle = AutogradOracle(made)
    found = method.step(oracle, made.point, method.init(oracle, made.point), batches, Metric((0.1,), (0.1,)))
    assert found.direction.v[0].tolist() == pytest.approx(expected, rel=1e-6)
    assert found.new_theta is not None
    assert (float(found.new_theta[0][1]), float(found.new_theta[0][2])) == (0.1, 0.0)


ONE = GradientDescent(0.1, 10)


@pytest.mark.parametrize(
    "method",
    [
        AIDCG(ONE), SOBA(), SABA(), StocBiO(ONE, Q=10), MRBO(Q=10, d=3.0), VRBO(ONE, Q=10), DARTS(ONE), SAMA(ONE),
    ],
    ids=lambda method: method.name,
)  # fmt: skip
def test_v_does_not_run_away_past_the_place_where_a_bound_becomes_active(method: Method) -> None:
    """HatzEtal2013: F(x) = |x|, since y₁ = max(x, 0). With H over all entries x falls for ever."""
    made = TASKS["bolib-hatzetal2013"]().problem
    rate = 0.1 if isinstance(method, SOBA | SABA | MRBO) else 0.02
    stepper = Stepper(made, method, SGD(made.v.leaves, 0.02), SGD(made.theta.leaves, rate))
    batches = Batches(inner=(None,) * method.inner_batches, outer=(None,) * method.outer_batches)
    for _ in range(120):
        stepper.step_on(batches)
    assert abs(float(made.point.v[0])) < 0.25


def test_sets_that_are_no_boxes_are_refused_in_one_line() -> None:
    for method in (AIDCG(ONE), SOBA(), SABA(), StocBiO(ONE), MRBO(), VRBO(ONE), DARTS(ONE), SAMA(ONE)):
        v, theta = torch.zeros(2, dtype=torch.float64), torch.full((3,), 1 / 3, dtype=torch.float64)
        made = Problem(outer, inner, v, theta, project_theta=simplex())
        with pytest.raises(UnsupportedError, match=f"{method.name} cannot .*: .* knows boxes only"):
            Stepper(made, method, SGD([v], 0.1), SGD([theta], 0.1))


def test_without_bounds_nothing_is_touched() -> None:
    free = Problem(outer, inner, torch.zeros(2, dtype=torch.float64), torch.zeros(3, dtype=torch.float64))
    x = torch.ones(3)
    assert Free(free, free.point.theta)((x,))[0] is x
    v = torch.zeros(2, dtype=torch.float64)
    wide = Problem(outer, inner, v, torch.zeros(3, dtype=torch.float64), project_theta=box(-1, torch.inf))
    assert torch.equal(Free(wide, wide.point.theta)((x,))[0], x)
