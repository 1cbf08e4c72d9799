"""The checks of a problem catch what they are there to catch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from bome import Batches, Problem, testing
from bome.testing import problem_checks
from tests.support.problems import EXAMPLES


def _problem(outer: Callable[..., Tensor] | None = None, inner: Callable[..., Tensor] | None = None) -> Problem:
    return Problem(
        outer or (lambda v, theta, batch: (theta - 1).square().sum() + v.square().sum()),
        inner or (lambda v, theta, batch: (theta - v).square().sum()),
        torch.ones(2, dtype=torch.float64),
        torch.zeros(2, dtype=torch.float64),
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_sound_problems_pass_and_are_left_as_they_were(name: str) -> None:
    problem = EXAMPLES[name]().problem
    before = [x.clone() for x in problem.point.v + problem.point.theta]
    testing.check_problem(problem)
    assert all(torch.equal(x, y) for x, y in zip(before, problem.point.v + problem.point.theta, strict=True))
    assert testing.second_order_possible(problem)


def test_a_broken_problem_fails_the_check_that_is_there_for_it() -> None:
    calls: list[int] = []

    def drifting(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        calls.append(1)
        return (theta - v).square().sum() * len(calls)

    def detached(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return (theta - v).square().sum() + theta.detach().pow(3).sum() + v.detach().exp().sum()

    def alone(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return theta.square().sum()

    cases = {
        "check_losses_are_finite": _problem(outer=lambda v, theta, batch: (theta - theta).sqrt().sum() / 0),
        "check_losses_are_functions": _problem(inner=drifting),
        "check_variables_matter": _problem(outer=alone, inner=alone),
        "check_gradients_are_derivatives": _problem(inner=detached),
    }
    for name, problem in cases.items():
        with pytest.raises(AssertionError, match=f"fails {name}"):
            testing.check_problem(problem)


def test_a_loss_that_writes_to_its_batch_is_caught() -> None:
    def inner(v: Tensor, theta: Tensor, batch: Tensor) -> Tensor:
        value = (theta - v).square().sum() + 0 * batch.sum()
        batch.mul_(2)
        return value

    with pytest.raises(AssertionError, match="check_losses_write_to_nothing"):
        testing.check_problem(
            _problem(inner=inner), Batches(inner=(torch.ones(2, dtype=torch.float64),), outer=(None,))
        )


def test_the_battery_has_every_check_of_its_file_and_each_has_a_docstring() -> None:
    defined = {name for name in vars(problem_checks) if name.startswith("check_")} - {"check_problem"}
    assert sorted(check.__name__ for check in testing.PROBLEM_CHECKS) == sorted(defined)
    assert all(check.__doc__ for check in testing.PROBLEM_CHECKS)
