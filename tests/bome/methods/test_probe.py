"""Probe: a literal transcription, the hypergradient in closed form, the bias of σ, young θ, cost, noise."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from bome import AutogradOracle, Batches, GradientDescent, Problem, Stepper
from bome._typing import State
from bome.core.barrier import Metric
from bome.core.trees import Pair
from bome.errors import ProblemError
from bome.methods import Probe
from bome.oracles import Oracle
from bome.tasks import quadratic, quadratic_instance
from tests.support.samples import ORACLES

METRIC = Metric((0.1,), (0.1,))
K: State = {"k": (torch.zeros((), dtype=torch.float64),)}


def _curved() -> tuple[Problem, Any, Any]:
    """f and g far from quadratic in both variables, with a batch that shifts g; and the two losses."""
    generator = torch.Generator().manual_seed(3)
    a = torch.randn(4, 3, generator=generator).double()

    def outer(v: Tensor, theta: Tensor, s: Any) -> Tensor:
        quartic: Tensor = (theta - 1).square().square().mean()
        return quartic + 0.1 * (v * theta[:3]).sum() + v.sin().sum()

    def inner(v: Tensor, theta: Tensor, s: Any) -> Tensor:
        r: Tensor = theta - (a @ v).tanh() - s
        return r.cosh().sum() + 0.1 * (v.square().sum() + 1) * theta.square().sum()

    v, theta = torch.randn(3, generator=generator).double(), torch.randn(4, generator=generator).double()
    return Problem(outer, inner, v, theta), outer, inner


def _gradient(loss: Any, v: Tensor, theta: Tensor, s: Any) -> tuple[Tensor, Tensor]:
    v, theta = v.clone().requires_grad_(), theta.clone().requires_grad_()
    d_v, d_theta = torch.autograd.grad(loss(v, theta, s), (v, theta))
    return d_v, d_theta


@pytest.mark.parametrize("kind", ORACLES)
@pytest.mark.parametrize("sides", ["one", "both"])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_steps_follow_the_transcription(kind: type[Oracle], sides: Any, steps: int) -> None:
    """Every point walks by itself, each gradient is evaluated anew; momentum 0."""
    alpha, reach, xi = 0.05, 0.1, 0.02
    problem, f, g = _curved()
    method = Probe(GradientDescent(alpha, steps), sides=sides, reach=reach, episode=3)
    stepper = Stepper(problem, method, torch.optim.SGD(problem.v.leaves, xi), oracle=kind(problem))
    (v,), (theta,) = (tuple(x.clone() for x in leaves) for leaves in problem.point)
    start = theta.clone()
    for k in range(7):
        zeta = [torch.tensor(0.1 * ((3 * k + t) % 4)).double() for t in range(steps + 1)]
        stepper.step_on(Batches(inner=tuple(zeta), outer=(None,)))
        theta = start if k % 3 == 0 else theta
        f_v, d = _gradient(f, v, theta, None)
        s = max(float(theta.norm()), alpha * steps * float(_gradient(g, v, theta, zeta[0])[1].norm()))
        sigma = alpha * steps * float(d.norm()) / (reach * s)
        points = dict.fromkeys((0, 1, -1), theta)
        total, count = torch.zeros(3).double(), 0
        for t in range(1, steps + 1):
            points = {
                sign: x - alpha * (_gradient(g, v, x, zeta[t - 1])[1] + sign * d / sigma) for sign, x in points.items()
            }
            if t > steps // 2:
                at = {sign: _gradient(g, v, x, zeta[t])[0] for sign, x in points.items()}
                total, count = total + (at[1] - at[0] if sides == "one" else (at[1] - at[-1]) / 2), count + 1
        v, theta = v - xi * (f_v + sigma * total / count), points[0]
        torch.testing.assert_close(problem.point.v[0], v, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(problem.point.theta[0], theta, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("sides", ["one", "both"])
@pytest.mark.parametrize("momentum", [0.0, 0.6])
def test_on_the_quadratic_the_direction_is_in_closed_form_wherever_theta_is(sides: Any, momentum: float) -> None:
    """h = f_v + Aᵀ(I − mean_t R_t) f_θ, R_t what t inner steps leave of θ − Av; σ and θ − Av drop out."""
    instance, problem = quadratic_instance(), quadratic().problem
    generator = torch.Generator().manual_seed(1)
    v, theta = (torch.randn(n, generator=generator, dtype=torch.float64) for n in (3, 4))
    eye, steps, alpha = torch.eye(4).double(), 6, 0.07
    left, m, each = eye, torch.zeros(4, 4).double(), []
    for t in range(1, steps + 1):
        m = momentum * m + instance.H @ left
        left = left - alpha * m
        each += [left] if t > steps // 2 else []
    expected = v - instance.b + instance.A.T @ (eye - torch.stack(each).mean(0)) @ (theta - instance.a)
    for reach in (1e-3, 10.0):
        method = Probe(GradientDescent(alpha, steps, momentum), sides=sides, reach=reach)
        batches = Batches(inner=(None,) * method.inner_batches)
        step = method.step(AutogradOracle(problem), Pair((v,), (theta,)), K, batches, METRIC)
        torch.testing.assert_close(step.direction.v[0], expected, rtol=1e-9, atol=1e-9)


def test_the_bias_of_sigma_falls_like_its_first_power_with_one_side_and_its_square_with_both() -> None:
    """Against y = z + u/σ with u by the inner steps linearised along z, second derivatives by autograd."""
    problem, f, g = _curved()
    (v,), (theta,) = problem.point
    s, steps, alpha = torch.zeros(()).double(), 5, 0.05
    f_v, d = _gradient(f, v, theta, None)
    w, z = v.clone().requires_grad_(), theta.clone().requires_grad_()
    u, total, count = torch.zeros(4).double(), torch.zeros(3).double(), 0
    for t in range(steps + 1):
        (g_theta,) = torch.autograd.grad(g(w, z, s), z, create_graph=True)
        along_v, along_theta = torch.autograd.grad(g_theta @ u, (w, z))
        if t > steps // 2:
            total, count = total + along_v, count + 1
        u = u - alpha * (along_theta + d)
        z = (z - alpha * g_theta).detach().requires_grad_()
    exact = f_v + total / count
    errors: dict[Any, list[float]] = {"one": [], "both": []}
    for sides, found in errors.items():
        for reach in (0.02, 0.01):
            method = Probe(GradientDescent(alpha, steps), sides=sides, reach=reach, draw="one")
            step = method.step(AutogradOracle(problem), problem.point, K, Batches(inner=(s,)), METRIC)
            found.append(float((step.direction.v[0] - exact).norm()))
    assert math.log2(errors["one"][0] / errors["one"][1]) == pytest.approx(1, abs=0.05)
    assert math.log2(errors["both"][0] / errors["both"][1]) == pytest.approx(2, abs=0.05)
    assert errors["both"][0] < 0.1 * errors["one"][0]


@pytest.mark.parametrize("kind", ORACLES)
def test_theta_is_trained_on_g_alone(kind: type[Oracle]) -> None:
    """With v at rest θ is where plain gradient descent on g is, and young θ restarts every L steps."""
    for episode in (0, 2):
        instance, problem = quadratic_instance(), quadratic(start="b").problem
        theta, start = problem.point.theta[0].clone(), problem.point.theta[0].clone()
        goal = instance.A @ problem.point.v[0]
        method = Probe(GradientDescent(0.1, 3), episode=episode, draw="one")
        stepper = Stepper(problem, method, torch.optim.SGD(problem.v.leaves, 1e-300), oracle=kind(problem))
        for k in range(5):
            stepper.step()
            theta = start if episode and k % episode == 0 else theta
            for _ in range(3):
                theta = theta - 0.1 * instance.H @ (theta - goal)
            torch.testing.assert_close(problem.point.theta[0], theta, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ORACLES)
@pytest.mark.parametrize(("sides", "cost"), [("one", 9), ("both", 12)])
def test_a_step_costs_2t_plus_1_evaluations_of_g_or_3t(kind: type[Oracle], sides: Any, cost: int) -> None:
    problem = quadratic().problem
    stepper = Stepper(
        problem, Probe(GradientDescent(0.1, 4), sides=sides, draw="one"), torch.optim.SGD(problem.v.leaves, 0.1)
    )
    for _ in range(3):
        stepper.step()
    assert stepper.counts == {"g": 3 * cost, "f": 3}


@pytest.mark.parametrize("kind", ORACLES)
def test_all_points_see_the_same_dropout_masks(kind: type[Oracle]) -> None:
    """With masks of their own the difference would be noise times σ: here f pulls at an entry that v does not move."""

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        mask = torch.nn.functional.dropout(torch.ones(1000, dtype=torch.float64), 0.5).mean()
        return 0.5 * theta.square().sum() + mask * (v * theta[0]).sum()

    problem = Problem(lambda v, theta, batch: theta[1], inner, torch.ones(1).double(), torch.ones(2).double())
    torch.manual_seed(0)
    stepper = Stepper(
        problem,
        Probe(GradientDescent(0.1, 4), draw="one"),
        torch.optim.SGD(problem.v.leaves, 1.0),
        oracle=kind(problem),
    )
    stepper.step()
    assert float(problem.point.v[0]) == 1.0


def test_where_f_does_not_pull_the_direction_is_f_v() -> None:
    problem = Problem(
        lambda v, theta, batch: 3 * v.sum() + 0 * theta.sum(),
        lambda v, theta, batch: (theta - v).square().sum(),
        torch.zeros(2).double(),
        torch.zeros(2).double(),
    )
    method = Probe(GradientDescent(0.1, 2), draw="one")
    step = method.step(AutogradOracle(problem), problem.point, K, Batches(), METRIC)
    assert step.direction.v[0].tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"inner": 0.1}, r"probe needs inner=GradientDescent"),
        ({"sides": "two"}, "sides must be"),
        ({"episode": -1}, r"episode \(L\) must be a whole number of at least 0"),
        ({"reach": 0.0}, r"reach \(ρ\) must be a positive number"),
        ({"draw": "two"}, "draw must be"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        Probe(**{"inner": GradientDescent(0.1), **settings})
