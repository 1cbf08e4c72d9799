"""The state of a stepper: saved in one, continued in another."""

from copy import deepcopy

import pytest
import torch
from torch import Tensor
from torch.optim import SGD, Adam

from bome import BOME, GradientDescent, Problem, Stepper
from bome.errors import StorageError


def inner(v: Tensor, theta: Tensor, batch: Tensor) -> Tensor:
    return (theta - v * batch).square().sum()


def outer(v: Tensor, theta: Tensor, batch: Tensor) -> Tensor:
    return (theta - 1).square().sum() + 0.1 * v.square().sum()


def stepper(n: int = 3) -> Stepper:
    v, theta = torch.zeros(n), torch.ones(n)
    method = BOME(GradientDescent(0.1, 3))
    return Stepper(Problem(outer, inner, v, theta), method, SGD([v], 0.1, momentum=0.9), Adam([theta], 0.05))


def test_another_stepper_continues_bit_for_bit_with_momentum_and_counts() -> None:
    draw = torch.Generator().manual_seed(0)
    batches = [torch.rand(3, generator=draw) for _ in range(8)]
    whole, first, second = stepper(), stepper(), stepper()
    for batch in batches:
        whole.step(inner=batch)
    for batch in batches[:5]:
        first.step(inner=batch)
    second.load_state_dict(deepcopy(first.state_dict()))
    for batch in batches[5:]:
        second.step(inner=batch)
    for a, b in zip(
        (*whole.problem.point.v, *whole.problem.point.theta),
        (*second.problem.point.v, *second.problem.point.theta),
        strict=True,
    ):
        assert torch.equal(a, b)
    assert (second.k, second.counts) == (whole.k, whole.counts)


def test_the_state_of_another_problem_is_refused() -> None:
    with pytest.raises(StorageError, match="another problem"):
        stepper(3).load_state_dict(stepper(4).state_dict())
