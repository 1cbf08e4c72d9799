"""AID-FP: the closed forms of its iteration on the quadratic, with and without momentum; cost."""

import pytest
import torch
from torch.optim import SGD

from bome import AdamDescent, GradientDescent, Stepper
from bome.errors import ProblemError
from bome.methods.aid_fp import AIDFP
from tests.support.problems import bed, full, one_step


@pytest.mark.parametrize("k", [1, 2, 10, 40])
@pytest.mark.parametrize("start", range(3))
def test_with_gradient_descent_it_is_a_neumann_series(k: int, start: int) -> None:
    """h = f_v + αAᵀH Σ_{i<K} (I−αH)^i f_θ(θ_T)."""
    q, lr = bed(start=start), 0.3
    found = one_step(q.problem, AIDFP(GradientDescent(lr, 3), K=k)).direction.v[0]
    f_theta = q.after(lr, 3) - q.a
    total = torch.stack([q.power(lr, i) @ f_theta for i in range(k)]).sum(0)
    torch.testing.assert_close(found, q.v - q.b + lr * q.A.T @ q.H @ total, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 10, 40])
def test_with_momentum_it_iterates_on_the_state_of_theta_and_momentum(k: int) -> None:
    """u ← Jᵀu + (f_θ; 0), J = [[I−αH, −αμI], [H, μI]], h = f_v + J_vᵀu, J_v = [αHA; −HA]."""
    q, lr, mu = bed(), 0.2, 0.7
    step = one_step(q.problem, AIDFP(GradientDescent(lr, 3, momentum=mu), K=k))
    assert step.new_theta is not None
    eye = torch.eye(4, dtype=torch.float64)
    jacobian = torch.cat([torch.cat([eye - lr * q.H, -lr * mu * eye], 1), torch.cat([q.H, mu * eye], 1)])
    jacobian_v = torch.cat([lr * q.H @ q.A, -q.H @ q.A])
    c = torch.cat([step.new_theta[0] - q.a, torch.zeros(4, dtype=torch.float64)])
    u = torch.zeros_like(c)
    for _ in range(k):
        u = jacobian.T @ u + c
    torch.testing.assert_close(step.direction.v[0], q.v - q.b + jacobian_v.T @ u, rtol=1e-12, atol=1e-12)


def test_with_adam_the_jacobian_is_that_of_its_last_state() -> None:
    """K = 1: h = f_v + (∂Φ/∂v)ᵀ(f_θ; 0), by central differences of Φ in v at the last state."""
    q, inner = bed(), AdamDescent(0.05, 3)
    step = one_step(q.problem, AIDFP(inner, K=1))
    state = inner.join((q.theta,), inner.start((q.theta,)))

    def moved(v: torch.Tensor, state: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return inner.step_state(state, (q.H @ (state[0] - q.A @ v),))

    for _ in range(3):
        state = moved(q.v, state)
    h = 1e-6
    slopes = [
        (moved(q.v + h * e, state)[0] - moved(q.v - h * e, state)[0]) / (2 * h)
        for e in torch.eye(3, dtype=torch.float64)
    ]
    expected = q.v - q.b + torch.stack(slopes) @ (state[0] - q.a)
    torch.testing.assert_close(step.direction.v[0], expected, rtol=1e-7, atol=1e-8)


def test_a_step_costs_what_is_declared() -> None:
    for steps, k in ((1, 1), (4, 10)):
        q, method = bed(), AIDFP(GradientDescent(0.3, steps, momentum=0.5), K=k)
        stepper = Stepper(q.problem, method, SGD(q.problem.v.leaves, 0.1))
        for _ in range(3):
            stepper.step_on(full(method))
        assert method.cost == {"g": steps + 1, "f": 1, "hvp": k - 1, "xvp": 1}
        assert stepper.counts == {kind: 3 * n for kind, n in method.cost.items()}


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(ProblemError, match="K must be a whole number"):
        AIDFP(GradientDescent(0.1), K=0)
    with pytest.raises(ProblemError, match="aid-fp needs a differentiable inner map"):
        AIDFP("gd")  # type: ignore[arg-type]
