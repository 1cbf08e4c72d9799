"""BSG-1: its formula, its transcription, and where the authors' runs end."""

from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor

from bome import AutogradOracle, Batches, GradientDescent, Problem, Stepper
from bome.core.barrier import Metric
from bome.core.trees import Pair
from bome.errors import ProblemError
from bome.methods.base import Step
from bome.methods.bsg1 import BSG1
from bome.tasks import Task, coreset, lls, minimax, quadratic, quadratic_instance
from tests.support.transcribed import Coreset, bsg1

X4 = {"code": (-3.0, -2.0), "paper": (-3.0, 2.0)}
END = {"code": (2.977, 1.004), "paper": (2.988, 1.005)}
"""θ after 5000 steps from (0, 3), f with the factor 0.1: methods.md 2.6."""


def _coreset(x4: str) -> Problem:
    """The code's coreset task with either value of x4."""
    p = Coreset(X4[x4])
    points, x0 = torch.from_numpy(p.points), torch.from_numpy(p.x0)
    return Problem(
        lambda v, theta, batch: 0.1 * (theta - x0).square().sum(),
        lambda v, theta, batch: (v.softmax(0) @ points - theta).square().sum(),
        torch.zeros(4, dtype=torch.float64),
        torch.tensor([0.0, 3.0], dtype=torch.float64),
    )


def _step(problem: Problem, method: BSG1, v: Tensor, theta: Tensor) -> Step:
    batches = Batches(inner=(None,) * method.inner_batches, outer=(None,))
    return method.step(AutogradOracle(problem), Pair((v,), (theta,)), {}, batches, Metric((1.0,), (1.0,)))


def _run(task: Task, eps: float, steps: int | None = None) -> Stepper:
    """The authors' run of a task."""
    s, problem = task.settings, task.problem
    stepper = Stepper(
        problem,
        BSG1(GradientDescent(s.inner_lr, s.inner_steps), eps=eps),
        outer_opt=torch.optim.SGD(problem.v.leaves, lr=s.outer_lr),
        inner_opt=torch.optim.SGD(problem.theta.leaves, lr=s.theta_lr),
    )
    batches = Batches(inner=(None,) * stepper.method.inner_batches, outer=(None,))
    for _ in range(steps or s.steps):
        stepper.step_on(batches)
    return stepper


def test_the_direction_is_that_of_rank_one_second_derivatives() -> None:
    """h = f_v − B H⁺ f_θ with H = g_θ g_θᵀ, B = g_v g_θᵀ and the pseudo-inverse, at θ after T steps."""
    instance, method = quadratic_instance(), BSG1(GradientDescent(0.2, 3))
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        v = torch.randn(3, generator=generator, dtype=torch.float64)
        theta = torch.randn(4, generator=generator, dtype=torch.float64)
        step = _step(quadratic().problem, method, v, theta)
        r = torch.linalg.matrix_power(torch.eye(4, dtype=torch.float64) - 0.2 * instance.H, 3) @ (
            theta - instance.A @ v
        )
        end = instance.A @ v + r
        g_theta, g_v = instance.H @ r, -instance.A.T @ instance.H @ r
        surrogate = torch.linalg.pinv(torch.outer(g_theta, g_theta), rtol=1e-10)
        expected = v - instance.b - torch.outer(g_v, g_theta) @ surrogate @ (end - instance.a)
        torch.testing.assert_close(step.direction.v[0], expected, rtol=1e-10, atol=1e-11)
        assert step.new_theta is not None
        torch.testing.assert_close(step.new_theta[0], end, rtol=1e-13, atol=1e-13)


def test_the_direction_is_exactly_zero_where_f_is_minus_g() -> None:
    """The ratio is −1, so h = f_v + g_v = 0."""
    instance = quadratic_instance()
    problem = Problem(
        lambda v, theta, batch: -instance.inner(v, theta),
        instance.inner,
        torch.ones(3).double(),
        torch.ones(4).double(),
    )
    step = _step(problem, BSG1(GradientDescent(0.1, 2)), *(x[0] for x in problem.point))
    assert torch.equal(step.direction.v[0], torch.zeros(3, dtype=torch.float64))


def test_for_scalar_theta_it_is_minus_f_theta_g_v_over_g_theta() -> None:
    """g = ½(θ − sin v)², f = (θ − 3)²: H = 1 is not the surrogate's, but the ratio is f_θ/g_θ = 2(θ − 3)/(θ − sin v).

    So h = −f_θ g_v / g_θ = 2(θ − 3) cos v, since g_v = −(θ − sin v) cos v.
    """
    problem = Problem(
        lambda v, theta, batch: (theta - 3).square(),
        lambda v, theta, batch: 0.5 * (theta - v.sin()).square(),
        torch.tensor(0.7, dtype=torch.float64),
        torch.tensor(2.0, dtype=torch.float64),
    )
    step = _step(problem, BSG1(GradientDescent(0.25, 1)), *(x[0] for x in problem.point))
    assert step.new_theta is not None
    expected = 2 * (step.new_theta[0] - 3) * torch.tensor(0.7, dtype=torch.float64).cos()
    torch.testing.assert_close(step.direction.v[0], expected, rtol=1e-14, atol=0)


def test_the_ratio_is_zero_where_the_inner_gradient_vanishes() -> None:
    """At v = 0, θ = 0 the inner problem is solved exactly, so h = f_v = −b."""
    instance = quadratic_instance()
    step = _step(quadratic().problem, BSG1(GradientDescent(0.2, 2)), torch.zeros(3).double(), torch.zeros(4).double())
    assert torch.equal(step.direction.v[0], -instance.b)


@pytest.mark.parametrize("steps", [1, 4])
def test_a_step_costs_t_plus_one_evaluations_of_g_and_one_of_f(steps: int) -> None:
    oracle = AutogradOracle(quadratic().problem)
    method = BSG1(GradientDescent(0.1, steps))
    method.step(oracle, oracle.problem.point, {}, Batches(inner=(None,) * (steps + 1)), Metric((0.1,), (0.1,)))
    assert oracle.counts == {"g": steps + 1, "f": 1}


def test_each_inner_step_and_the_direction_have_a_batch_of_their_own() -> None:
    seen: list[Any] = []

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        seen.append(batch)
        return (theta - v).square()

    problem = Problem(
        lambda v, theta, batch: theta.square(), inner, torch.tensor(1.0).double(), torch.tensor(2.0).double()
    )
    method = BSG1(GradientDescent(0.1, 3))
    assert (method.inner_batches, method.outer_batches) == (4, 1)
    method.step(AutogradOracle(problem), problem.point, {}, Batches(inner=(1, 2, 3, 4)), Metric((0.1,), (0.1,)))
    assert seen == [1, 2, 3, 4]


@pytest.mark.parametrize("x4", ["code", "paper"])
def test_coreset_ends_where_the_authors_run_does(x4: str) -> None:
    """The transcription's 5000 steps end at the reference point, and each hundredth of them is a step of the method.

    With x4 of the code that is the wrong vertex (the solution is (1.8, 0.4)); with x4 of the paper, the right one.
    """
    problem, method = _coreset(x4), BSG1(GradientDescent(0.05, 10), eps=1e-50)
    v, theta = (x[0].numpy().copy() for x in problem.point)
    path = list(islice(bsg1(Coreset(X4[x4]), v, theta, xi=0.05, steps=10, eps=1e-50), 5001))
    assert tuple(path[-1][1]) == pytest.approx(END[x4], abs=5e-4)
    for k in range(0, 5000, 100):
        v, theta = path[k]
        step = _step(problem, method, torch.from_numpy(v), torch.from_numpy(theta))
        assert step.new_theta is not None
        moved = torch.from_numpy(v) - 0.05 * step.direction.v[0]
        torch.testing.assert_close(moved, torch.from_numpy(path[k + 1][0]), rtol=0, atol=1e-12)
        torch.testing.assert_close(step.new_theta[0], torch.from_numpy(path[k + 1][1]), rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("x4", ["code", "paper"])
def test_five_thousand_coreset_steps_of_the_stepper_end_there_too(x4: str) -> None:
    base = coreset()
    task = Task("coreset", x4, "a", _coreset(x4), base.settings)
    stepper = _run(task, 1e-50)
    assert tuple(stepper.problem.point.theta[0].tolist()) == pytest.approx(END[x4], abs=5e-4)


def test_on_minimax_v_never_moves() -> None:
    """f = −g: v stays at 4, and θ goes to the end of the box."""
    point = _run(minimax(), 1e-50).problem.point
    assert float(point.v[0]) == 4
    assert float(point.theta[0]) == 10


def test_on_lls_it_is_stuck_at_the_start() -> None:
    """At (0, (0, 0)) g_θ = 0 and f_v = 0: nothing moves, f = 0.5. So any number of steps will do."""
    stepper = _run(lls(), 1e-8, steps=200)
    assert [float(x[0].abs().max()) for x in stepper.problem.point] == [0, 0]


def test_unfit_settings_are_refused() -> None:
    with pytest.raises(ProblemError, match="eps"):
        BSG1(GradientDescent(0.1), eps=-1.0)
    with pytest.raises(ProblemError, match="inner map"):
        BSG1(0.1)  # type: ignore[arg-type]
