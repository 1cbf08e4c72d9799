"""DARTS: exact where H = I, its finite difference elsewhere, degenerate points; cost, and every oracle."""

from itertools import pairwise

import pytest
import torch
from torch.optim import SGD, RMSprop

from bome import AutogradOracle, BackwardOracle, FuncOracle, GradientDescent, Problem, Stepper, TorchOptim
from bome.errors import ProblemError
from bome.methods.darts import DARTS
from bome.methods.itd import ITD
from bome.oracles import Oracle
from bome.tasks import quadratic_instance
from tests.support.problems import EXAMPLES, bed, dense, flat, full, one_step, relative


@pytest.mark.parametrize("radius", [1e-3, 0.01, 1.0])
def test_with_curvature_one_it_is_the_exact_hypergradient(radius: float) -> None:
    """H = I: f_v − B f_θ = f_v + Aᵀf_θ(θ_T); ∇_v g is linear in θ, so every R gives it, up to rounding of 1e-16/R."""
    instance = quadratic_instance("isotropic")
    v, theta = torch.linspace(-1, 1, 3, dtype=torch.float64), torch.linspace(0.5, 2, 4, dtype=torch.float64)
    problem = Problem(instance.outer, instance.inner, v, theta)
    step = one_step(problem, DARTS(GradientDescent(0.3, 2), R=radius))
    theta = instance.A @ v + 0.7**2 * (theta - instance.A @ v)
    expected = v - instance.b + instance.A.T @ (theta - instance.a)
    torch.testing.assert_close(step.direction.v[0], expected, rtol=1e-10, atol=1e-11)


def test_on_the_quadratic_the_identity_stands_for_the_inverse() -> None:
    """h = f_v + AᵀHf_θ; as the original multiplies by α: f_v + αAᵀHf_θ, which is ITD with one step."""
    q = bed()
    f_theta = q.after(0.3, 2) - q.a
    for options, factor in (({}, 1.0), (DARTS.variants["original"], 0.3)):
        found = one_step(q.problem, DARTS(GradientDescent(0.3, 2), **options)).direction.v[0]
        expected = q.v - q.b + factor * q.A.T @ q.H @ f_theta
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-11)
    inner = GradientDescent(0.3, 1)
    original, itd = one_step(q.problem, DARTS(inner, scale="lr")), one_step(q.problem, ITD(inner))
    torch.testing.assert_close(original.direction.v, itd.direction.v, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_difference_tends_to_the_cross_product_with_the_square_of_r(name: str) -> None:
    """f_v − B f_θ + O(R²) at θ*(v), where inner steps stay."""
    made = EXAMPLES[name]()
    point = made.problem.point
    at = dense(made.problem, point.v[0], flat(point.theta))
    exact = at.f_v - at.B @ at.f_theta
    errors = [
        relative(one_step(made.problem, DARTS(GradientDescent(made.lr, 1), R=r)).direction.v[0], exact)
        for r in (0.2, 0.02, 0.002)
    ]
    assert errors[-1] <= 1e-6
    assert all(later <= 0.011 * error + 1e-11 for error, later in pairwise(errors))


def test_where_f_does_not_depend_on_theta_the_direction_is_that_of_f_alone() -> None:
    """‖d‖ = 0: no division by it."""
    q = bed()
    problem = Problem(lambda v, theta, batch: v.square().sum() + 0 * theta.sum(), q.problem.inner, q.v, q.theta)
    torch.testing.assert_close(one_step(problem, DARTS(GradientDescent(0.3, 2))).direction.v[0], 2 * q.v)


@pytest.mark.parametrize("kind", [FuncOracle, BackwardOracle])
def test_first_order_oracles_will_do(kind: type[Oracle]) -> None:
    ends = []
    for oracle in (None, kind):
        q = bed()
        method = DARTS(GradientDescent(0.3, 2))
        chosen: Oracle = AutogradOracle(q.problem) if oracle is None else oracle(q.problem)
        stepper = Stepper(q.problem, method, SGD(q.problem.v.leaves, 0.05), oracle=chosen)
        for _ in range(3):
            stepper.step_on(full(method))
        ends.append((q.v, q.theta))
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-11, atol=1e-12)


def test_a_step_costs_what_is_declared() -> None:
    q, method = bed(), DARTS(GradientDescent(0.3, 4))
    stepper = Stepper(q.problem, method, SGD(q.problem.v.leaves, 0.05))
    for _ in range(3):
        stepper.step_on(full(method))
    assert method.cost == {"g": 6, "f": 1}
    assert stepper.counts == {"g": 18, "f": 3}


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(ProblemError, match="R must be a positive number"):
        DARTS(GradientDescent(0.1), R=0.0)
    with pytest.raises(ProblemError, match="scale must be one of 'one', 'lr'"):
        DARTS(GradientDescent(0.1), scale="two")  # type: ignore[arg-type]
    with pytest.raises(ProblemError, match="scale='lr' needs an inner map with a step size"):
        DARTS(TorchOptim(lambda p: RMSprop(p)), scale="lr")
