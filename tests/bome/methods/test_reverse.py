"""reverse: ITD where K ≥ T, its truncated closed form, cost."""

import pytest
import torch
from torch.optim import SGD

from bome import AdamDescent, GradientDescent, Problem, Stepper, TorchOptim, box
from bome.errors import ProblemError
from bome.inner import DifferentiableMap
from bome.methods.itd import ITD
from bome.methods.reverse import Reverse
from tests.support.problems import EXAMPLES, bed, full, one_step

MAPS: list[DifferentiableMap] = [GradientDescent(0.2, 6), GradientDescent(0.2, 6, momentum=0.9), AdamDescent(0.05, 6)]


@pytest.mark.parametrize("inner", MAPS, ids=repr)
@pytest.mark.parametrize("name", EXAMPLES)
def test_with_k_of_at_least_t_it_equals_itd(name: str, inner: DifferentiableMap) -> None:
    problem = EXAMPLES[name]().problem
    for leaf in problem.point.theta:
        leaf += 0.3
    expected = one_step(problem, ITD(inner))
    for k in (6, 7, 100):
        found = one_step(problem, Reverse(inner, K=k))
        torch.testing.assert_close(found.direction.v, expected.direction.v, rtol=1e-11, atol=1e-13)
        torch.testing.assert_close(found.new_theta, expected.new_theta, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("k", [1, 3, 9])
def test_truncated_on_the_quadratic_it_has_its_closed_form(k: int) -> None:
    """h = f_v + Aᵀ(I − (I−αH)^K) f_θ(θ_T), with T = 10."""
    q = bed()
    found = one_step(q.problem, Reverse(GradientDescent(0.3, 10), K=k)).direction.v[0]
    reach = torch.eye(4, dtype=torch.float64) - q.power(0.3, k)
    expected = q.v - q.b + q.A.T @ reach @ (q.after(0.3, 10) - q.a)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_projections_are_differentiated_as_in_itd() -> None:
    q = bed()
    problem = Problem(q.problem.outer, q.problem.inner, q.v, q.theta, project_theta=box(-0.3, 0.3))
    inner = GradientDescent(0.2, 5, momentum=0.5)
    expected, found = one_step(problem, ITD(inner)), one_step(problem, Reverse(inner))
    torch.testing.assert_close(found.direction.v, expected.direction.v, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(found.new_theta, expected.new_theta, rtol=1e-13, atol=0)


@pytest.mark.parametrize(("steps", "k"), [(3, 10), (10, 4), (1, 1)])
def test_a_step_costs_what_is_declared(steps: int, k: int) -> None:
    q, method = bed(), Reverse(GradientDescent(0.3, steps), K=k)
    stepper = Stepper(q.problem, method, SGD(q.problem.v.leaves, 0.1))
    for _ in range(3):
        stepper.step_on(full(method))
    back = min(steps, k)
    assert method.cost == {"g": steps + back, "f": 1, "hvp": back, "xvp": back}
    assert stepper.counts == {kind: 3 * n for kind, n in method.cost.items()}


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(ProblemError, match="reverse needs a differentiable inner map"):
        Reverse(TorchOptim(lambda p: SGD(p, 0.1)))  # type: ignore[arg-type]
    with pytest.raises(ProblemError, match="K must be a whole number of at least 1, got 0"):
        Reverse(GradientDescent(0.1), K=0)
