"""MEHA: its direction in closed form, its transcription, its cost."""

import pytest
import torch

from bome import AutogradOracle, Batches, Stepper
from bome._typing import State
from bome.core.barrier import Metric
from bome.core.trees import Pair
from bome.errors import ProblemError
from bome.methods.meha import MEHA
from bome.tasks import quadratic, quadratic_instance


@pytest.mark.parametrize("k", [0, 15])
def test_where_the_inner_problem_is_solved_the_direction_is_in_closed_form(k: int) -> None:
    """θ = z = Av: z⁺ = z and θ⁺ = θ − αf_θ/c_k, so g_v(θ⁺) = (α/c_k)AᵀHf_θ and g_v(z⁺) = 0.

    Hence d_v = f_v/c_k + (α/c_k)AᵀHf_θ. With c_0 = 3 and p = ¼: c_0 = 3, c_15 = 6.
    """
    instance, problem = quadratic_instance(), quadratic().problem
    method, alpha = MEHA(0.1, gamma=2.0, c=3.0), 0.2
    c = {0: 3.0, 15: 6.0}[k]
    generator = torch.Generator().manual_seed(0)
    for _ in range(10):
        v = torch.randn(3, generator=generator, dtype=torch.float64)
        theta = instance.A @ v
        state: State = {"z": (theta.clone(),), "k": (torch.tensor(float(k), dtype=torch.float64),)}
        step = method.step(AutogradOracle(problem), Pair((v,), (theta,)), state, Batches(), Metric((0.1,), (alpha,)))
        f_theta = theta - instance.a
        expected = (v - instance.b) / c + alpha / c * instance.A.T @ instance.H @ f_theta
        torch.testing.assert_close(step.direction.v[0], expected, rtol=1e-12, atol=1e-12)
        assert step.new_theta is not None
        torch.testing.assert_close(step.new_theta[0], theta - alpha / c * f_theta, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(step.state["z"][0], theta, rtol=1e-12, atol=1e-12)


def test_fifty_steps_follow_the_transcription() -> None:
    instance, problem = quadratic_instance(seed=1), quadratic(start="b", seed=1).problem
    a, h, inverse = instance.A, instance.H, 1 / 5.0
    stepper = Stepper(
        problem,
        MEHA(0.1, gamma=5.0, c=0.7, p=0.4),
        torch.optim.SGD(problem.v.leaves, lr=0.02),
        torch.optim.SGD(problem.theta.leaves, lr=0.05),
    )
    v, theta = (x[0].clone() for x in problem.point)
    z = theta.clone()
    for k in range(50):
        stepper.step()
        c = 0.7 * (k + 1) ** 0.4
        z = z - 0.1 * (h @ (z - a @ v) + inverse * (z - theta))
        theta = theta - 0.05 * ((theta - instance.a) / c + h @ (theta - a @ v) - inverse * (theta - z))
        v = v - 0.02 * ((v - instance.b) / c - a.T @ h @ (theta - z))
        for ours, reference in ((problem.point.v, v), (problem.point.theta, theta), (stepper.state["z"], z)):
            torch.testing.assert_close(ours[0], reference, rtol=1e-11, atol=1e-11)


def test_a_step_costs_4_evaluations_of_g_and_2_of_f() -> None:
    problem = quadratic().problem
    stepper = Stepper(
        problem, MEHA(0.1), torch.optim.SGD(problem.v.leaves, lr=0.1), torch.optim.SGD(problem.theta.leaves, lr=0.1)
    )
    for _ in range(3):
        stepper.step()
    assert stepper.counts == {"g": 12, "f": 6}


def test_the_fixed_point_with_constant_c_minimises_the_penalised_objective() -> None:
    """p = 0: it settles where f/c + g − (Moreau envelope of g) is stationary in (v, θ), z being the envelope's point.

    z = (H + I/γ)⁻¹(HAv + θ/γ); the two conditions (θ − a)/c + H(θ − Av) − (θ − z)/γ = 0 and
    (v − b)/c − AᵀH(θ − z) = 0 are checked at the end point.
    """
    instance, problem = quadratic_instance(), quadratic().problem
    a, h = instance.A, instance.H
    c, gamma = 4.0, 2.0
    stepper = Stepper(
        problem,
        MEHA(0.3, gamma=gamma, c=c, p=0.0),
        torch.optim.SGD(problem.v.leaves, lr=0.1),
        torch.optim.SGD(problem.theta.leaves, lr=0.1),
    )
    for _ in range(1100):
        stepper.step()
    (v,), (theta,) = problem.point
    z = torch.linalg.solve(h + torch.eye(4).double() / gamma, h @ a @ v + theta / gamma)
    torch.testing.assert_close(stepper.state["z"][0], z, rtol=1e-8, atol=1e-8)
    first = (theta - instance.a) / c + h @ (theta - a @ v) - (theta - z) / gamma
    second = (v - instance.b) / c - a.T @ h @ (theta - z)
    assert float(first.abs().max()) < 1e-8
    assert float(second.abs().max()) < 1e-8


def test_unfit_settings_are_refused() -> None:
    for values, word in (
        ({"inner_lr": 0.0}, "inner_lr"),
        ({"gamma": -1.0}, "gamma"),
        ({"c": 0.0}, "c_0"),
        ({"p": 0.5}, "p must"),
    ):
        with pytest.raises(ProblemError, match=word):
            MEHA(**{"inner_lr": 0.1, **values})
