"""SAMA: DARTS with gradient descent; with Adam the Jacobian of its last update, by autograd and as printed; cost."""

import pytest
import torch
from torch.optim import SGD

from bome import AdamDescent, AutogradOracle, GradientDescent, Stepper, TorchOptim
from bome.errors import ProblemError
from bome.methods.darts import DARTS
from bome.methods.sama import SAMA, adam_jacobian
from bome.methods.trajectory import trajectory
from tests.support.problems import EXAMPLES, bed, full, one_step


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("name", EXAMPLES)
def test_with_gradient_descent_it_is_darts(name: str, momentum: float) -> None:
    problem = EXAMPLES[name]().problem
    inner = GradientDescent(0.2, 3, momentum)
    found, expected = one_step(problem, SAMA(inner, R=0.01)), one_step(problem, DARTS(inner, R=0.01))
    torch.testing.assert_close(found.direction, expected.direction, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(found.new_theta, expected.new_theta, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_the_jacobian_of_adam_is_the_derivative_of_its_update(steps: int) -> None:
    """−∂θ⁺/∂(gradient) of `AdamDescent.update` by autograd, for entries with large, small and no gradient."""
    inner = AdamDescent(0.1, steps, betas=(0.8, 0.95), eps=1e-3)
    generator = torch.Generator().manual_seed(steps)
    leaf, buffers = torch.zeros(5, dtype=torch.float64), inner.init(torch.zeros(5, dtype=torch.float64))
    scales = torch.tensor([1.0, 10.0, 1e-2, 1e-4, 0.0], dtype=torch.float64)
    for _ in range(steps):
        before = buffers
        grad = (scales * torch.randn(5, generator=generator, dtype=torch.float64)).requires_grad_()
        moved, after = inner.update(leaf, grad, buffers)
        (slope,) = torch.autograd.grad(-moved.sum(), grad)
        leaf, buffers = moved.detach(), tuple(x.detach() for x in after)
    torch.testing.assert_close(adam_jacobian(inner, before, buffers), slope, rtol=1e-9, atol=1e-9)


def test_late_in_a_run_it_is_the_printed_formula() -> None:
    """P = α[(1−β1)β2ν' − β1(1−β2)g m'] / (√ν + ε)³: bias corrections have gone, and ε is small."""
    inner = AdamDescent(0.1, 1, betas=(0.9, 0.99), eps=1e-10)
    m, nu, g = (torch.tensor(x, dtype=torch.float64) for x in ([0.3, -0.1], [0.5, 0.2], [0.4, 0.9]))
    late = torch.tensor(1e5, dtype=torch.float64)
    _, (m_new, nu_new, t) = inner.update(torch.zeros(2, dtype=torch.float64), g, (m, nu, late))
    printed = 0.1 * (0.1 * 0.99 * nu - 0.9 * 0.01 * g * m) / (nu_new.sqrt() + 1e-10) ** 3
    found = adam_jacobian(inner, (m, nu, late), (m_new, nu_new, t))
    torch.testing.assert_close(found, printed, rtol=1e-8, atol=0)


def test_with_adam_the_direction_is_preconditioned() -> None:
    """h = f_v + AᵀH(P ⊙ f_θ(θ_T)) on the quadratic, where the difference is exact."""
    q, inner = bed(), AdamDescent(0.1, 4)
    step = one_step(q.problem, SAMA(inner))
    before, after = trajectory(AutogradOracle(q.problem), (q.v,), (q.theta,), inner, (None,), keep=2)
    d = adam_jacobian(inner, before[1:], after[1:]) * (after[0] - q.a)
    expected = q.v - q.b + q.A.T @ q.H @ d
    torch.testing.assert_close(step.direction.v[0], expected, rtol=1e-10, atol=1e-11)
    torch.testing.assert_close(step.new_theta, after[:1], rtol=0, atol=0)


def test_the_trajectory_is_that_of_the_look_ahead() -> None:
    """Its last state is where `descend` ends; its first, if all are kept, is θ itself."""
    q, inner = bed(), AdamDescent(0.1, 4)
    oracle = AutogradOracle(q.problem)
    states = trajectory(oracle, (q.v,), (q.theta,), inner, (None,), keep=10)
    assert len(states) == 5
    assert oracle.counts == {"g": 4}
    torch.testing.assert_close(states[0][0], q.theta, rtol=0, atol=0)
    torch.testing.assert_close(states[-1][:1], oracle.descend((q.v,), (q.theta,), inner, (None,)), rtol=0, atol=0)


def test_a_step_costs_what_is_declared() -> None:
    for inner in (GradientDescent(0.3, 4), AdamDescent(0.1, 4)):
        q, method = bed(), SAMA(inner)
        stepper = Stepper(q.problem, method, SGD(q.problem.v.leaves, 0.05))
        for _ in range(3):
            stepper.step_on(full(method))
        assert method.cost == {"g": 6, "f": 1}
        assert stepper.counts == {"g": 18, "f": 3}


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(ProblemError, match="R must be a positive number"):
        SAMA(GradientDescent(0.1), R=float("inf"))
    with pytest.raises(ProblemError, match="sama knows the Jacobian of GradientDescent and AdamDescent"):
        SAMA(TorchOptim(lambda p: SGD(p, 0.1)))  # type: ignore[arg-type]
