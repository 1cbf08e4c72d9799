"""V-PBGD: BOME with a fixed multiplier, in closed form and against a transcription."""

import pytest
import torch
from torch import Tensor

from bome import BOME, AutogradOracle, Batches, GradientDescent, Problem, Stepper
from bome.core.barrier import Metric
from bome.core.trees import Pair
from bome.errors import ProblemError
from bome.methods.base import Method
from bome.methods.pbgd import PBGD
from bome.tasks import TASKS, quadratic, quadratic_instance


def _stepper(problem: Problem, method: Method, lr: float) -> Stepper:
    return Stepper(
        problem, method, torch.optim.SGD(problem.v.leaves, lr=lr), torch.optim.SGD(problem.theta.leaves, lr=lr)
    )


@pytest.mark.parametrize("steps", [1, 10])
@pytest.mark.parametrize("name", ["coreset", "minimax", "quadratic"])
def test_it_is_bome_with_the_multiplier_forced_to_gamma(name: str, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    gamma = 2.5
    forced = torch.tensor(gamma, dtype=torch.float64)
    monkeypatch.setattr("bome.methods.bome.multiplier", lambda *_: forced)
    inner = GradientDescent(0.05, steps)
    ours, theirs = (TASKS[name](start="b" if name == "quadratic" else "a").problem for _ in range(2))
    a, b = _stepper(ours, PBGD(inner, gamma=gamma), 0.02), _stepper(theirs, BOME(inner, counts="all"), 0.02)
    for _ in range(50):
        one, two = a.step(), b.step()
        assert torch.equal(ours.point.v[0], theirs.point.v[0])
        assert torch.equal(ours.point.theta[0], theirs.point.theta[0])
        assert (one.f, one.g, one.q) == (two.f, two.g, two.q)
        if not ours.project_theta:  # BOME would count all of 𝒦, too
            assert one.kkt_gradient == two.kkt_gradient
    assert a.counts == b.counts == {"g": 50 * (steps + 1), "f": 50}


def test_the_direction_is_in_closed_form_on_the_quadratic() -> None:
    """∇q̂ = (−AᵀH(I − P)r, Hr), r = θ − Av, P = (I − αH)^T; δ = ∇f + γ∇q̂."""
    instance, problem = quadratic_instance(), quadratic().problem
    method = PBGD(GradientDescent(0.1, 7), gamma=3.0)
    identity = torch.eye(4, dtype=torch.float64)
    p: Tensor = torch.linalg.matrix_power(identity - 0.1 * instance.H, 7)
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        v, theta = (torch.randn(n, generator=generator, dtype=torch.float64) for n in (3, 4))
        oracle = AutogradOracle(problem)
        point = Pair((v,), (theta,))
        step = method.step(oracle, point, method.init(oracle, point), Batches(), Metric((0.1,), (0.1,)))
        r = theta - instance.A @ v
        d_v = v - instance.b - 3 * instance.A.T @ instance.H @ (identity - p) @ r
        torch.testing.assert_close(step.direction.v[0], d_v, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(step.direction.theta[0], theta - instance.a + 3 * instance.H @ r)


def test_a_warm_omega_follows_the_transcription() -> None:
    """ω goes on from its last value, T = 1: g_v(v, ω) = −AᵀH(ω − Av). The linear ramp is γ min(k / ramp, 1)."""
    instance, problem = quadratic_instance(seed=1), quadratic(start="b", seed=1).problem
    a, h = instance.A, instance.H
    stepper = _stepper(problem, PBGD(GradientDescent(0.2, 1), gamma=2.0, ramp=20, omega="warm"), 0.05)
    v, theta = (x[0].clone() for x in problem.point)
    omega = theta.clone()
    for k in range(50):
        info = stepper.step()
        omega = omega - 0.2 * h @ (omega - a @ v)
        gamma = 2.0 * min(k / 20, 1.0)
        d_v = v - instance.b - gamma * a.T @ h @ (theta - omega)
        d_theta = theta - instance.a + gamma * h @ (theta - a @ v)
        v, theta = v - 0.05 * d_v, theta - 0.05 * d_theta
        for ours, reference in ((problem.point.v, v), (problem.point.theta, theta), (stepper.state["omega"], omega)):
            torch.testing.assert_close(ours[0], reference, rtol=1e-11, atol=1e-11)
        assert float(info.lam) == pytest.approx(gamma)  # type: ignore[arg-type]


@pytest.mark.parametrize("steps", [1, 4])
def test_a_warm_omega_costs_one_evaluation_more(steps: int) -> None:
    """T + 2 of g and 1 of f, where the restart shares the first gradient: T + 1 and 1."""
    for omega, cost in (("warm", steps + 2), ("restart", steps + 1)):
        method = PBGD(GradientDescent(0.1, steps), omega=omega)  # type: ignore[arg-type]
        stepper = _stepper(quadratic().problem, method, 0.05)
        for _ in range(3):
            stepper.step()
        assert stepper.counts == {"g": 3 * cost, "f": 3}


def test_it_settles_at_the_minimum_of_the_penalised_objective() -> None:
    """With a warm ω solved, the fixed point minimises f + γq over (v, θ), which is a linear system.

    f + γ ½(θ − Av)ᵀH(θ − Av), as min g = 0: [I + γAᵀHA, −γAᵀH; −γHA, I + γH](v, θ) = (b, a).
    """
    instance, problem = quadratic_instance(), quadratic().problem
    a, h, gamma = instance.A, instance.H, 2.0
    stepper = _stepper(problem, PBGD(GradientDescent(0.5, 3), gamma=gamma, omega="warm"), 0.05)
    for _ in range(600):
        stepper.step()
    left = torch.cat(
        [
            torch.cat([torch.eye(3).double() + gamma * a.T @ h @ a, -gamma * a.T @ h], dim=1),
            torch.cat([-gamma * h @ a, torch.eye(4).double() + gamma * h], dim=1),
        ]
    )
    expected = torch.linalg.solve(left, torch.cat([instance.b, instance.a]))
    torch.testing.assert_close(torch.cat([x[0] for x in problem.point]), expected, rtol=1e-8, atol=1e-8)


def test_unfit_settings_are_refused() -> None:
    inner = GradientDescent(0.1)
    for values, word in (({"gamma": 0.0}, "gamma"), ({"ramp": -1}, "ramp"), ({"omega": "cold"}, "omega")):
        with pytest.raises(ProblemError, match=word):
            PBGD(inner, **values)
    with pytest.raises(ProblemError, match="inner map"):
        PBGD(0.1)  # type: ignore[arg-type]
