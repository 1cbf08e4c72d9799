"""Plain gradient descent-ascent diverges at its rate; which problems it and the optimistic one take as min-max."""

from typing import Any

import pytest
import torch
from torch import Tensor

from bome import Problem, Stepper
from bome.errors import UnsupportedError
from bome.methods.base import Method
from bome.methods.gda import GDA, negative
from bome.methods.ogda import OGDA
from bome.per_sample import PerSample
from bome.tasks import coreset, lls, minimax, quadratic

XI = 0.05


def _stepper(problem: Problem, method: Method) -> Stepper:
    return Stepper(
        problem, method, torch.optim.SGD(problem.v.leaves, lr=XI), torch.optim.SGD(problem.theta.leaves, lr=XI)
    )


def _point(problem: Problem) -> complex:
    return complex(float(problem.point.v[0]), float(problem.point.theta[0]))


def test_gda_diverges_at_exactly_the_rate_of_its_matrix() -> None:
    """u = v + iθ follows u ← (1 + iξ)u, so |u_k| = (1 + ξ²)^{k/2} |u_0|; without bounds nothing stops it."""
    problem = minimax("paper").problem
    stepper = _stepper(problem, GDA())
    start = _point(problem)
    for k in range(1, 501):
        stepper.step()
        assert abs(_point(problem)) == pytest.approx((1 + XI**2) ** (k / 2) * abs(start), rel=1e-12)
    assert _point(problem) == pytest.approx((1 + 1j * XI) ** 500 * start, rel=1e-11)
    assert stepper.counts == {"g": 500}


@pytest.mark.parametrize("method", [OGDA(), GDA()])
def test_problems_that_are_not_min_max_are_refused_before_the_first_step(method: Method) -> None:
    for task in (coreset(), lls(), quadratic()):
        with pytest.raises(UnsupportedError, match=f"{method.name} cannot solve this problem: it is for min-max") as e:
            _stepper(task.problem, method)
        assert "\n" not in str(e.value)


def test_losses_that_need_data_are_known_as_min_max_if_declared() -> None:
    def outer(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        scale: Tensor = batch.mean()
        return v * theta * scale + 0.5 * v.square() - 0.5 * theta.square()

    def problem(inner: Any) -> Problem:
        return Problem(outer, inner, torch.tensor(1.0).double(), torch.tensor(2.0).double())

    with pytest.raises(UnsupportedError, match=r"inner=bome\.methods\.negative"):
        _stepper(problem(lambda v, theta, batch: -outer(v, theta, batch)), OGDA())
    with pytest.raises(UnsupportedError, match="min-max"):
        _stepper(problem(negative(lambda v, theta, batch: outer(v, theta, batch) + 1)), OGDA())
    declared = problem(negative(outer))
    stepper = _stepper(declared, OGDA())
    for _ in range(400):
        info = stepper.step(inner=torch.ones(3).double(), outer=torch.ones(3).double())
    assert abs(_point(declared)) < 1e-7
    assert info.g is not None
    assert float(info.f + info.g) == 0


def test_a_table_of_rows_is_refused() -> None:
    problem = Problem(
        lambda v, theta, batch: (v * theta).sum(),
        lambda v, theta, batch: -(v * theta).sum(),
        PerSample(5),
        torch.tensor(1.0),
    )
    with pytest.raises(UnsupportedError, match="PerSample"):
        _stepper(problem, OGDA())


def test_losses_that_agree_at_the_start_only_are_refused() -> None:
    """At v = 0 both losses are 0, but nearby they do not add up to 0."""
    problem = Problem(
        lambda v, theta, batch: v * theta,
        lambda v, theta, batch: v.square(),
        torch.tensor(0.0).double(),
        torch.tensor(1.0).double(),
    )
    with pytest.raises(UnsupportedError, match="min-max"):
        _stepper(problem, GDA())
