"""F2SA: its bias at exact inner solutions, its schedules, its batches and costs."""

from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from bome import AutogradOracle, Batches, GradientDescent, Problem, Stepper
from bome.core.barrier import Metric
from bome.core.trees import Pair
from bome.errors import ProblemError
from bome.methods.f2sa import F2SA
from bome.tasks import quadratic, quadratic_instance


def _batches(method: F2SA) -> Batches:
    return Batches(inner=(None,) * method.inner_batches, outer=(None,) * method.outer_batches)


@pytest.mark.parametrize("lam", [1.0, 10.0, 1000.0])
def test_at_exact_inner_solutions_the_bias_is_of_order_one_over_lambda(lam: float) -> None:
    """z = Av and y = z − (λH + I)⁻¹(z − a) solve both inner problems, so the inner steps leave them alone.

    The direction is then f_v + λ(g_v(y) − g_v(z)) = f_v + Aᵀ(I + H⁻¹/λ)⁻¹f_θ(z), and the hypergradient f_v + Aᵀf_θ(z).
    """
    instance, problem = quadratic_instance(), quadratic().problem
    a, h, identity = instance.A, instance.H, torch.eye(4, dtype=torch.float64)
    method = F2SA(GradientDescent(0.1, 3), lam=lam)
    generator = torch.Generator().manual_seed(0)
    for _ in range(10):
        v = torch.randn(3, generator=generator, dtype=torch.float64)
        z = a @ v
        y = z - torch.linalg.solve(lam * h + identity, z - instance.a)
        oracle = AutogradOracle(problem)
        point = Pair((v,), (y,))
        state = {**method.init(oracle, point), "z": (z,)}
        step = method.step(oracle, point, state, _batches(method), Metric((0.1,), (0.01 / lam,)))
        assert step.new_theta is not None
        torch.testing.assert_close(step.new_theta[0], y, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(step.state["z"][0], z, rtol=1e-12, atol=1e-12)
        shrunk = torch.linalg.inv(identity + torch.linalg.inv(h) / lam)
        error = step.direction.v[0] - instance.exact_hypergradient(v)
        torch.testing.assert_close(error, a.T @ (shrunk - identity) @ (z - instance.a), rtol=1e-10, atol=1e-10)
        assert float(error.norm()) <= float((a.T.abs() @ (z - instance.a).abs()).norm()) * 4 / lam


@pytest.mark.parametrize("schedule", ["paper", "benchopt", "constant"])
def test_fifty_steps_follow_the_transcription(schedule: Literal["paper", "benchopt", "constant"]) -> None:
    """The factors on γ_0 = 0.1, α_0 = 0.05 and β_0 = 0.02 by the table of the module, with λ_0 = 1.5 and T = 3."""
    instance, problem = quadratic_instance(seed=1), quadratic(start="b", seed=1).problem
    a, h = instance.A, instance.H
    method = F2SA(GradientDescent(0.1, 3), lam=1.5, schedule=schedule, lam_step=0.2)
    stepper = Stepper(
        problem, method, torch.optim.SGD(problem.v.leaves, lr=0.02), torch.optim.SGD(problem.theta.leaves, lr=0.05)
    )
    v, y = (x[0].clone() for x in problem.point)
    z, lam = y.clone(), 1.5
    for k in range(50):
        info = stepper.step_on(_batches(method))
        assert info.lam is not None
        assert float(info.lam) == pytest.approx(lam, rel=1e-13)
        powers = {"paper": (5, 4, 5), "benchopt": (5, 4, 4), "constant": (0, 0, 0)}[schedule]
        alpha, gamma, beta = (c * (k + 1) ** (-p / 7) for c, p in zip((0.05, 0.1, 0.02), powers, strict=True))
        for _ in range(3):
            z = z - gamma * h @ (z - a @ v)
            y = y - alpha * (y - instance.a + lam * h @ (y - a @ v))
        v = v - beta * (v - instance.b - lam * a.T @ h @ (y - z))
        if schedule == "paper":
            lam = 1.5 * (k + 2) ** (1 / 7)
        elif schedule == "benchopt":
            lam += 0.2 * (k + 1) ** (-1 / 7)
        for ours, reference in ((problem.point.v, v), (problem.point.theta, y), (stepper.state["z"], z)):
            torch.testing.assert_close(ours[0], reference, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("steps", [1, 4])
def test_a_step_costs_2t_plus_2_evaluations_of_g_and_t_plus_1_of_f(steps: int) -> None:
    problem = quadratic().problem
    method = F2SA(GradientDescent(0.1, steps))
    stepper = Stepper(problem, method, torch.optim.SGD(problem.v.leaves, lr=0.1))
    for _ in range(3):
        stepper.step_on(_batches(method))
    assert stepper.counts == {"g": 3 * (2 * steps + 2), "f": 3 * (steps + 1)}


def test_batches_are_used_in_the_documented_order() -> None:
    """Inner: T for z, T for y, one for both terms of v. Outer: T for y, one for v."""
    seen: list[tuple[str, Any]] = []

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        seen.append(("g", batch))
        return (theta - v).square()

    def outer(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        seen.append(("f", batch))
        return theta.square()

    problem = Problem(outer, inner, torch.tensor(1.0).double(), torch.tensor(2.0).double())
    method = F2SA(GradientDescent(0.1, 2))
    assert (method.inner_batches, method.outer_batches) == (5, 3)
    oracle = AutogradOracle(problem)
    batches = Batches(inner=(0, 1, 2, 3, 4), outer=(10, 11, 12))
    method.step(oracle, problem.point, method.init(oracle, problem.point), batches, Metric((0.1,), (0.1,)))
    first = [("g", 0), ("g", 2), ("f", 10), ("g", 1), ("g", 3), ("f", 11)]
    assert seen == [*first, ("g", 4), ("g", 4), ("f", 12)]


def test_with_constant_steps_it_settles_where_the_biased_direction_vanishes() -> None:
    """There both inner problems are solved, so (v − b) + AᵀM(Av − a) = 0 with M = (I + H⁻¹/λ)⁻¹: a linear system."""
    instance, problem = quadratic_instance(), quadratic().problem
    a, lam = instance.A, 5.0
    method = F2SA(GradientDescent(0.4, 5), lam=lam, schedule="constant")
    stepper = Stepper(
        problem, method, torch.optim.SGD(problem.v.leaves, lr=0.1), torch.optim.SGD(problem.theta.leaves, lr=0.15)
    )
    for _ in range(250):
        stepper.step_on(_batches(method))
    m = torch.linalg.inv(torch.eye(4, dtype=torch.float64) + torch.linalg.inv(instance.H) / lam)
    left = torch.eye(3, dtype=torch.float64) + a.T @ m @ a
    expected = torch.linalg.solve(left, instance.b + a.T @ m @ instance.a)
    torch.testing.assert_close(problem.point.v[0], expected, rtol=1e-9, atol=1e-9)


def test_unfit_settings_are_refused() -> None:
    inner = GradientDescent(0.1)
    for values, word in (({"lam": 0.0}, "lam"), ({"lam_step": -1.0}, "lam_step"), ({"schedule": "fast"}, "schedule")):
        with pytest.raises(ProblemError, match=word):
            F2SA(inner, **values)
    with pytest.raises(ProblemError, match="differentiable"):
        F2SA(0.1)  # type: ignore[arg-type]
