"""ITD: the closed form on the quadratic, momentum by hand, projections, cost."""

import pytest
import torch
from torch.optim import SGD

from bome import AdamDescent, AutogradOracle, GradientDescent, Problem, Stepper, TorchOptim, box
from bome.errors import ProblemError
from bome.methods.itd import ITD
from tests.support.problems import bed, full, one_step


@pytest.mark.parametrize("steps", [1, 2, 7, 30])
@pytest.mark.parametrize("start", range(3))
def test_on_the_quadratic_the_direction_has_its_closed_form(steps: int, start: int) -> None:
    """With θ_T = Av + P(θ_0 − Av) and dθ_T/dv = (I − P)A: h = f_v + Aᵀ(I − P)(θ_T − a)."""
    q = bed(start=start)
    step = one_step(q.problem, ITD(GradientDescent(0.3, steps)))
    theta, p = q.after(0.3, steps), q.power(0.3, steps)
    expected = q.v - q.b + q.A.T @ (torch.eye(4, dtype=torch.float64) - p) @ (theta - q.a)
    torch.testing.assert_close(step.direction.v[0], expected, rtol=1e-12, atol=1e-12)
    assert step.new_theta is not None
    torch.testing.assert_close(step.new_theta[0], theta, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("inner", [GradientDescent(0.3, 4, momentum=0.9), AdamDescent(0.1, 4)], ids=repr)
def test_the_direction_is_the_derivative_of_f_at_the_end_of_the_loop(inner: GradientDescent | AdamDescent) -> None:
    """Central differences of v ↦ f(v, θ_T(v)), with the loop run without any graph."""
    q = bed()
    found = one_step(q.problem, ITD(inner)).direction.v[0]

    def value(v: torch.Tensor) -> float:
        problem = Problem(q.problem.outer, q.problem.inner, v, q.theta.clone())
        end = AutogradOracle(problem).descend((v,), (q.theta,), inner, (None,))
        return float(q.problem.outer(v, end[0], None))

    h = 1e-5
    slopes = [(value(q.v + h * e) - value(q.v - h * e)) / (2 * h) for e in torch.eye(3, dtype=torch.float64)]
    torch.testing.assert_close(found, torch.tensor(slopes, dtype=torch.float64), rtol=1e-7, atol=1e-8)


def test_momentum_has_no_effect_on_a_single_step() -> None:
    q = bed()
    plain, heavy = (one_step(q.problem, ITD(GradientDescent(0.3, 1, momentum=m))) for m in (0.0, 0.9))
    torch.testing.assert_close(plain.direction.v, heavy.direction.v, rtol=1e-14, atol=0)


def test_where_a_projection_holds_theta_nothing_flows_through_it() -> None:
    """All entries of θ_T sit on a bound, so that dθ_T/dv = 0 and h = f_v."""
    q = bed()
    problem = Problem(q.problem.outer, q.problem.inner, q.v, torch.zeros_like(q.theta), project_theta=box(-1e-9, 1e-9))
    step = one_step(problem, ITD(GradientDescent(0.3, 2)))
    torch.testing.assert_close(step.direction.v[0], q.v - q.b, rtol=1e-14, atol=0)


def test_a_step_costs_what_is_declared() -> None:
    for steps in (1, 4):
        q, method = bed(), ITD(GradientDescent(0.3, steps))
        stepper = Stepper(q.problem, method, SGD(q.problem.v.leaves, 0.1))
        for _ in range(3):
            stepper.step_on(full(method))
        assert method.cost == {"g": steps, "f": 1, "hvp": steps, "xvp": steps}
        assert stepper.counts == {kind: 3 * n for kind, n in method.cost.items()}


def test_an_inner_map_without_derivative_is_refused() -> None:
    with pytest.raises(ProblemError, match="itd needs a differentiable inner map"):
        ITD(TorchOptim(lambda p: SGD(p, 0.1)))  # type: ignore[arg-type]
