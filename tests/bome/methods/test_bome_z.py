"""BOME with kept z: a literal transcription, where it starts, closed forms, cost, copies in place."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bome import BOME, AutogradOracle, BackwardOracle, Batches, GradientDescent, Problem, Stepper
from bome._typing import State
from bome.core.barrier import Metric
from bome.methods import BOMEZ
from bome.methods.base import Method
from bome.oracles import Oracle
from bome.tasks import quadratic, quadratic_instance
from tests.support import algorithm1
from tests.support.algorithm1 import Array, Losses
from tests.support.samples import ORACLES

METRIC = Metric((0.1,), (0.1,))


def _transcribed(
    p: Losses, v: Array, theta: Array, z: Array, *, xi: float, alpha: float, steps: int, eta: float
) -> tuple[Array, Array, Array]:
    """v, θ and z of the next step, everything evaluated where the box asks for it."""
    at = z if p.g(v, z) < p.g(v, theta) else theta
    for _ in range(steps):
        at = at - alpha * p.g_theta(v, at)
    dq = np.concatenate([p.g_v(v, theta) - p.g_v(v, at), p.g_theta(v, theta)])
    df = np.concatenate([p.f_v(v, theta), p.f_theta(v, theta)])
    lam = max((eta * dq @ dq - df @ dq) / (dq @ dq), 0.0)
    delta = df + lam * dq
    return v - xi * delta[: len(v)], theta - xi * delta[len(v) :], at


@pytest.mark.parametrize("kind", ORACLES)
def test_fifty_steps_follow_the_transcription(kind: type[Oracle]) -> None:
    """On the coreset problem, which is not quadratic in v; both starts occur."""
    generator = np.random.default_rng(0)
    v, theta = generator.normal(size=4), np.array([2.0, 1.0])
    losses, points, x0 = (
        algorithm1.Coreset(),
        torch.tensor(algorithm1.Coreset.points),
        torch.tensor([3.0, -2.0]).double(),
    )
    problem = Problem(
        lambda v, theta, batch: 0.1 * (theta - x0).square().sum(),
        lambda v, theta, batch: (v.softmax(0) @ points - theta).square().sum(),
        torch.tensor(v),
        torch.tensor(theta),
    )
    stepper = _stepper(problem, BOMEZ(GradientDescent(0.02, 3), eta=0.7), 0.3, kind(problem))
    z, kept = theta.copy(), 0
    for _ in range(50):
        kept += losses.g(v, z) < losses.g(v, theta)
        v, theta, z = _transcribed(losses, v, theta, z, xi=0.3, alpha=0.02, steps=3, eta=0.7)
        stepper.step()
        for ours, reference in zip(
            (*problem.point.v, *problem.point.theta, *stepper.state["z"]), (v, theta, z), strict=True
        ):
            np.testing.assert_allclose(ours.numpy(), reference, rtol=1e-11, atol=1e-13)
    assert 0 < kept < 50


def _stepper(problem: Problem, method: Method, lr: float, oracle: Oracle) -> Stepper:
    v, theta = problem.v.leaves, problem.theta.leaves
    return Stepper(problem, method, torch.optim.SGD(v, lr), torch.optim.SGD(theta, lr), oracle)


@pytest.mark.parametrize("kind", ORACLES)
@pytest.mark.parametrize("better", ["z", "θ"])
def test_the_look_ahead_starts_from_the_better_point(kind: type[Oracle], better: str) -> None:
    """On the quadratic θ^(T) = Av + (I − αH)^T (start − Av); q̂ is g(θ) less g there. Neither point is written to."""
    instance, problem = quadratic_instance(), quadratic().problem
    v, near = torch.randn(3, generator=torch.Generator().manual_seed(0)).double(), torch.full((4,), 0.1).double()
    solution = instance.A @ v
    points = solution + near, solution - 3 * near
    theta, z = points if better == "θ" else points[::-1]
    problem.v.leaves[0].copy_(v)
    problem.theta.leaves[0].copy_(theta)
    state: State = {"z": (z.clone(),)}
    step = BOMEZ(GradientDescent(0.1, 4)).step(kind(problem), problem.point, state, Batches(), METRIC)
    p = torch.linalg.matrix_power(torch.eye(4).double() - 0.1 * instance.H, 4)
    end = solution + p @ near
    torch.testing.assert_close(step.state["z"][0], end, rtol=1e-12, atol=1e-12)
    assert step.info.q is not None
    torch.testing.assert_close(step.info.q, instance.inner(v, theta) - instance.inner(v, end))
    assert torch.equal(state["z"][0], z)
    assert torch.equal(problem.point.theta[0], theta)


def test_where_z_is_theta_it_is_bome() -> None:
    problem = quadratic(start="b").problem
    inner = GradientDescent(0.1, 5)
    z: State = {"z": tuple(x.clone() for x in problem.point.theta)}
    ours = BOMEZ(inner).step(AutogradOracle(problem), problem.point, z, Batches(), METRIC)
    theirs = BOME(inner).step(AutogradOracle(problem), problem.point, {}, Batches(), METRIC)
    assert torch.equal(ours.direction.v[0], theirs.direction.v[0])
    assert torch.equal(ours.direction.theta[0], theirs.direction.theta[0])
    assert ours.info == theirs.info


@pytest.mark.parametrize("kind", ORACLES)
@pytest.mark.parametrize("steps", [1, 4])
def test_a_step_costs_one_evaluation_of_g_more_than_bome(kind: type[Oracle], steps: int) -> None:
    problem = quadratic().problem
    stepper = _stepper(problem, BOMEZ(GradientDescent(0.1, steps)), 0.05, kind(problem))
    for _ in range(3):
        stepper.step()
    assert stepper.counts == {"g": 3 * (steps + 2), "f": 3}


def test_v_sees_all_of_the_gap_where_theta_is_slow() -> None:
    """g = ½ h (θ − v)², α h = 1 %: of the gap between θ and θ*(v) T = 5 steps from θ_k see 5 %, from z at rest all."""
    h = torch.tensor(0.01).double()
    v, theta = torch.tensor([0.0]).double(), torch.tensor([1.0]).double()
    problem = Problem(
        lambda v, theta, batch: 0.5 * (theta - 1).square().sum(),
        lambda v, theta, batch: 0.5 * h * (theta - v).square().sum(),
        v,
        theta,
    )
    inner = GradientDescent(1.0, 5)
    kept = BOMEZ(inner).step(AutogradOracle(problem), problem.point, {"z": (v.clone(),)}, Batches(), METRIC)
    today = BOME(inner).step(AutogradOracle(problem), problem.point, {}, Batches(), METRIC)
    for step, share in ((kept, 1.0), (today, 1 - 0.99**5)):
        lam = step.info.lam
        assert lam is not None
        torch.testing.assert_close(step.direction.v[0] / lam.float().double(), -share * h[None], rtol=1e-6, atol=0)


def test_in_place_it_works_on_the_live_parameters_of_a_module() -> None:
    """z and θ are as with AutogradOracle, and afterwards the module holds θ_k again."""
    torch.manual_seed(0)
    nets = [nn.Linear(3, 2).double() for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    x = torch.randn(5, 3).double()
    steps = []
    for net, kind in zip(nets, (AutogradOracle, BackwardOracle), strict=True):
        problem = Problem(
            lambda v, net, batch: (net(x) - 1).square().mean(),
            lambda v, net, batch: (net(x) - v).square().mean(),
            torch.zeros(2).double(),
            net,
        )
        before: list[Tensor] = [p.detach().clone() for p in net.parameters()]
        state: State = {"z": tuple(0.5 * p for p in before)}
        steps.append(BOMEZ(GradientDescent(0.1, 3)).step(kind(problem), problem.point, state, Batches(), METRIC))
        assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
    for a, b in zip(steps[0].state["z"], steps[1].state["z"], strict=True):
        torch.testing.assert_close(a, b)
    torch.testing.assert_close(steps[0].direction.v, steps[1].direction.v)
