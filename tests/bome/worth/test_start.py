"""Starts: copies that a problem can be put to, and what is undone."""

import random

import numpy as np
import pytest
import torch
from torch import nn

from bome import Problem
from bome.errors import ProblemError
from bome.worth.start import Start, undone


def _problem(width: int = 3) -> Problem:
    net = nn.Sequential(nn.Linear(2, width), nn.BatchNorm1d(width))
    x = torch.randn(8, 2)
    return Problem(lambda v, net, _: net(x).mean() + v, lambda v, net, _: net(x).square().mean(), torch.zeros(()), net)


def test_a_start_is_a_copy_that_theta_and_running_statistics_go_back_to() -> None:
    problem = _problem()
    start = Start(problem)
    before = [x.clone() for x in (*problem.point.theta, *problem.buffers.values())]
    for x in (*problem.point.v, *problem.point.theta, *problem.buffers.values()):
        x.add_(1)
    assert float(start.v[0]) == 0
    start.write(problem)
    now = (*problem.point.theta, *problem.buffers.values())
    assert all(torch.equal(a, b) for a, b in zip(now, before, strict=True))
    assert float(problem.point.v[0]) == 1  # v stays


def test_a_start_of_another_problem_is_refused() -> None:
    with pytest.raises(ProblemError, match="the start is of another problem"):
        Start(_problem(4)).check(_problem())


def test_theta_statistics_and_all_generators_are_as_before_whatever_happens_within() -> None:
    problem = _problem()
    before = [x.clone() for x in (*problem.point.theta, *problem.buffers.values())]

    def draw() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(()))  # noqa: NPY002, S311

    def work() -> None:
        with undone(problem):
            draw()
            for x in (*problem.point.theta, *problem.buffers.values()):
                x.add_(1)
            raise KeyboardInterrupt

    torch.manual_seed(0), random.seed(0), np.random.seed(0)  # noqa: NPY002
    expected = draw()
    torch.manual_seed(0), random.seed(0), np.random.seed(0)  # noqa: NPY002
    with pytest.raises(KeyboardInterrupt):
        work()
    assert draw() == expected
    assert all(
        torch.equal(a, b) for a, b in zip((*problem.point.theta, *problem.buffers.values()), before, strict=True)
    )
