"""AID-CG: exact on the quadratic with K ≥ n, cost, singular Hessians."""

import pytest
import torch
from torch.optim import SGD, RMSprop

from bome import BackwardOracle, GradientDescent, Stepper, TorchOptim
from bome.errors import ProblemError, UnsupportedError
from bome.methods.aid_cg import AIDCG
from bome.tasks import lls
from tests.support.problems import bed, full, one_step


@pytest.mark.parametrize("k", [4, 5, 10])
@pytest.mark.parametrize("start", range(3))
def test_with_k_of_at_least_n_it_is_exact_at_any_theta(k: int, start: int) -> None:
    """On the quadratic f_v − BH⁻¹f_θ = f_v + Aᵀf_θ(θ_T); n = 4."""
    q = bed(start=start)
    found = one_step(q.problem, AIDCG(GradientDescent(0.3, 2), K=k)).direction.v[0]
    expected = q.v - q.b + q.A.T @ (q.after(0.3, 2) - q.a)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_with_one_step_it_is_a_line_search_along_f_theta() -> None:
    """z_1 = (‖f_θ‖² / f_θᵀHf_θ) f_θ, and h = f_v + AᵀHz_1."""
    q = bed()
    found = one_step(q.problem, AIDCG(GradientDescent(0.3, 2), K=1)).direction.v[0]
    f_theta = q.after(0.3, 2) - q.a
    z = (f_theta @ f_theta) / (f_theta @ q.H @ f_theta) * f_theta
    torch.testing.assert_close(found, q.v - q.b + q.A.T @ q.H @ z, rtol=1e-12, atol=1e-12)


def test_any_optimiser_of_torch_may_do_the_inner_steps() -> None:
    q = bed()
    step = one_step(q.problem, AIDCG(TorchOptim(lambda p: RMSprop(p, lr=0.01), steps=3)))
    assert step.new_theta is not None
    expected = q.v - q.b + q.A.T @ (step.new_theta[0] - q.a)
    torch.testing.assert_close(step.direction.v[0], expected, rtol=1e-12, atol=1e-12)


def test_a_run_reaches_the_solution_of_the_quadratic() -> None:
    """(AᵀA + I)v* = Aᵀa + b."""
    q, method = bed(), AIDCG(GradientDescent(0.5, 6), K=4)
    stepper = Stepper(q.problem, method, SGD(q.problem.v.leaves, 0.1))
    for _ in range(250):
        stepper.step_on(full(method))
    v = torch.linalg.solve(torch.eye(3, dtype=torch.float64) + q.A.T @ q.A, q.A.T @ q.a + q.b)
    torch.testing.assert_close(q.v, v, rtol=0, atol=1e-10)
    torch.testing.assert_close(q.theta, q.A @ v, rtol=0, atol=1e-10)


def test_a_singular_hessian_leaves_the_step_finite() -> None:
    """LLS: H = diag(1, 0), so that conjugate gradients stop after the direction of positive curvature."""
    task = lls()
    stepper = Stepper(task.problem, AIDCG(GradientDescent(0.5, 1)), SGD(task.problem.v.leaves, 0.5))
    for _ in range(20):
        stepper.step()
    assert all(bool(x.isfinite().all()) for x in (*task.problem.point.v, *task.problem.point.theta))


def test_a_step_costs_what_is_declared() -> None:
    for steps, k in ((1, 1), (4, 10)):
        q, method = bed(), AIDCG(GradientDescent(0.3, steps), K=k)
        stepper = Stepper(q.problem, method, SGD(q.problem.v.leaves, 0.1))
        for _ in range(3):
            stepper.step_on(full(method))
        assert method.cost == {"g": steps + 1, "f": 1, "hvp": k, "xvp": 1}
        assert stepper.counts == {kind: 3 * n for kind, n in method.cost.items()}


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(ProblemError, match="K must be a whole number"):
        AIDCG(GradientDescent(0.1), K=0)
    with pytest.raises(ProblemError, match="tolerance must be a positive number"):
        AIDCG(GradientDescent(0.1), tolerance=0.0)
    q = bed()
    with pytest.raises(UnsupportedError, match="aid-cg needs HVP, which BackwardOracle cannot give"):
        Stepper(q.problem, AIDCG(GradientDescent(0.1)), SGD(q.problem.v.leaves, 0.1), oracle=BackwardOracle(q.problem))
