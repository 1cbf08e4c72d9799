"""The inner loop with its states: the last of them, buffers included, projected at every step."""

import pytest
import torch
from torch.optim import SGD

from bome import AdamDescent, AutogradOracle, GradientDescent, TorchOptim, box
from bome.errors import ProblemError
from bome.methods.trajectory import check_differentiable, projected, trajectory
from tests.support.problems import bed
from tests.support.samples import toy


@pytest.mark.parametrize("keep", [1, 3, 6])
def test_the_last_states_are_kept_oldest_first(keep: int) -> None:
    q = bed()
    oracle = AutogradOracle(q.problem)
    states = trajectory(oracle, (q.v,), (q.theta,), GradientDescent(0.2, 5), (None,), keep)
    assert len(states) == keep
    for t, (theta,) in zip(range(6 - keep, 6), states, strict=True):
        torch.testing.assert_close(theta, q.after(0.2, t))
    assert oracle.counts == {"g": 5}


def test_states_hold_the_buffers_of_the_inner_map() -> None:
    problem = toy()
    (last,) = trajectory(AutogradOracle(problem), *problem.point, AdamDescent(0.1, 2), (None,), 1)
    assert len(last) == 4  # θ, the two moments and the count
    assert float(last[3]) == 2


def test_every_state_is_projected_and_each_step_has_its_batch() -> None:
    problem = toy(project_theta=box(-0.1, 0.1))
    seen: list[object] = []
    loss = problem.inner
    problem.inner = lambda v, theta, batch: (seen.append(batch), loss(v, theta, batch))[1]  # type: ignore[func-returns-value]
    states = trajectory(AutogradOracle(problem), *problem.point, GradientDescent(0.1, 3), (1, 2), 4)
    assert seen == [1, 2, 2]  # the last batch serves all further steps
    assert all((theta.abs() <= 0.1).all() for (theta,) in states[1:])
    assert projected(problem, (torch.ones(2),))[0].tolist() == pytest.approx([0.1, 0.1])


def test_inner_maps_that_work_in_place_are_refused() -> None:
    check_differentiable("itd", GradientDescent(0.1))
    with pytest.raises(ProblemError, match="itd needs a differentiable inner map: GradientDescent or AdamDescent"):
        check_differentiable("itd", TorchOptim(lambda p: SGD(p, 0.1), 2))
