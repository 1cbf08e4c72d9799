"""T inner steps, then one along the direct derivative of f: against closed forms, with its cost and its bias."""

import torch
from torch.optim import SGD

from bome import GradientDescent, Stepper
from bome.methods.alternating import Alternating
from tests.support.problems import bed, one_step


def test_a_step_is_descent_in_theta_and_then_the_direct_derivative_in_v() -> None:
    q = bed()
    step = one_step(q.problem, Alternating(GradientDescent(0.2, 3)))
    torch.testing.assert_close(step.direction.v[0], q.v - q.b)  # nothing of how θ depends on v
    assert step.direction.theta == ()
    assert step.new_theta is not None
    torch.testing.assert_close(step.new_theta[0], q.after(0.2, 3))


def test_it_costs_what_it_says_and_draws_a_batch_for_every_inner_step() -> None:
    method = Alternating(GradientDescent(0.2, 3))
    assert (method.inner_batches, method.outer_batches) == (3, 1)
    assert method.bias
    q = bed()
    stepper = Stepper(q.problem, method, SGD(q.problem.v.leaves, 0.1))
    one_step(q.problem, method, oracle=stepper.oracle)  # type: ignore[arg-type]
    assert stepper.counts == method.cost == {"g": 3, "f": 1}
