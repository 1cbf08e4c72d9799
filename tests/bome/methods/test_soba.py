"""SOBA: its fixed point is the hypergradient, its steps on the quadratic, convergence on finite sums; cost."""

import numpy as np
import pytest
import torch
from torch.optim import SGD

from bome import Stepper
from bome.data.streams import Data, FixedBatches
from bome.methods.soba import SOBA
from tests.support.problems import EXAMPLES, bed, dense, finite_sum, flat, full, one_step, relative, unflat


@pytest.mark.parametrize("name", EXAMPLES)
def test_at_its_fixed_point_the_direction_is_the_hypergradient(name: str) -> None:
    """At θ = θ*(v) and z = −H⁻¹f_θ neither moves, and the direction of v is f_v − BH⁻¹f_θ."""
    made = EXAMPLES[name]()
    point = made.problem.point
    at = dense(made.problem, point.v[0], flat(point.theta))
    z = unflat(-torch.linalg.solve(at.H, at.f_theta), point.theta)
    step = one_step(made.problem, SOBA(), state={"z": z}, theta_lr=made.lr)
    assert relative(step.direction.v[0], made.hypergradient) <= 1e-10
    assert relative(step.direction.v[0], made.finite_differences()) <= 1e-6
    assert float(flat(step.direction.theta).norm()) <= 1e-12
    assert relative(flat(step.state["z"]), flat(z)) <= 1e-12


@pytest.mark.parametrize("name", EXAMPLES)
def test_with_v_held_z_goes_to_its_fixed_point_by_one_minus_rho_mu_a_step(name: str) -> None:
    """From z = 0 at θ*(v): z_k = −(I − (I−ρH)^k) H⁻¹f_θ, so the direction of v is the series of k terms."""
    made = EXAMPLES[name]()
    point = made.problem.point
    at = dense(made.problem, point.v[0], flat(point.theta))
    state = None
    for k in range(12):
        step = one_step(made.problem, SOBA(), state=state, theta_lr=made.lr)
        assert relative(step.direction.v[0], at.series(made.lr, k)) <= 1e-10
        state = step.state


def test_on_the_quadratic_a_step_is_what_the_algorithm_says() -> None:
    """D_θ = H(θ−Av), D_z = Hz + θ − a, D_v = v − b − AᵀHz, all at the old (v, θ, z)."""
    q = bed()
    stepper = Stepper(q.problem, SOBA(), SGD(q.problem.v.leaves, 0.05), SGD(q.problem.theta.leaves, 0.3))
    v, theta, z = q.v.clone(), q.theta.clone(), torch.zeros(4, dtype=torch.float64)
    for _ in range(6):
        stepper.step()
        moves = q.H @ (theta - q.A @ v), q.H @ z + theta - q.a, v - q.b - q.A.T @ q.H @ z
        theta, z, v = theta - 0.3 * moves[0], z - 0.3 * moves[1], v - 0.05 * moves[2]
        torch.testing.assert_close(q.v, v, rtol=1e-12, atol=1e-13)
        torch.testing.assert_close(q.theta, theta, rtol=1e-12, atol=1e-13)
        torch.testing.assert_close(stepper.state["z"][0], z, rtol=1e-12, atol=1e-13)


def test_with_minibatches_decreasing_steps_converge_and_constant_ones_do_not() -> None:
    """On a finite sum of 6 terms, mean distances over steps 200 .. 399 and 400 .. 799.

    Constant steps end in noise, which does not fall any more. With ρ_k ∝ k^{−1/2} the noise falls at least like √ρ_k,
    the rate for independent batches, that is by 2^{−1/4} from one window to the next.
    """
    falls = []
    for decay in (False, True):
        sums = finite_sum(count=6)
        problem, tensors, solution = sums.problem, (sums.H, sums.A, sums.a, sums.b), torch.cat(sums.solution())
        stepper = Stepper(problem, SOBA(), SGD(problem.v.leaves, 0.03), SGD(problem.theta.leaves, 0.15))
        data, distances = Data(inner=FixedBatches(tensors, 6, seed=1), outer=FixedBatches(tensors, 3, seed=2)), []
        for k in range(800):
            for optimiser, rate in ((stepper.outer_opt, 0.03), (stepper.inner_opt, 0.15)):
                optimiser.param_groups[0]["lr"] = rate / (1 + k / 50) ** 0.5 if decay else rate
            stepper.step_on(data.draw(inner=1, outer=1))
            distances.append(float((torch.cat((problem.point.v[0], problem.point.theta[0])) - solution).norm()))
        falls.append(np.mean(distances[400:]) / np.mean(distances[200:400]))
    assert falls[0] >= 0.9
    assert falls[1] <= 2**-0.25


def test_a_step_costs_what_is_declared() -> None:
    q, method = bed(), SOBA()
    stepper = Stepper(q.problem, method, SGD(q.problem.v.leaves, 0.05), SGD(q.problem.theta.leaves, 0.3))
    for _ in range(3):
        stepper.step_on(full(method))
    assert method.cost == {"g": 1, "f": 1, "hvp": 1, "xvp": 1}
    assert stepper.counts == {kind: 3 * n for kind, n in method.cost.items()}
