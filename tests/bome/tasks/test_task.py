"""What a task is made of: norms over several tensors, single runs of a stack, and observing what v alone is worth."""

from dataclasses import replace

import pytest
import torch

from bome.core.trees import Pair
from bome.data import Data
from bome.problem import Batches, Problem
from bome.tasks import lls, quadratic
from bome.tasks.task import Stack, norm


def test_the_norm_is_that_of_all_entries() -> None:
    assert norm(torch.tensor(3.0), torch.tensor([[0.0, 4.0]])) == pytest.approx(5.0)


def test_a_run_of_a_stack_has_its_own_entries_of_v() -> None:
    def loss(v: torch.Tensor, theta: torch.Tensor, batch: None) -> torch.Tensor:
        return v.sum() * theta.sum()

    problem = Problem(loss, loss, torch.arange(8.0).reshape(2, 4), torch.arange(4.0).reshape(2, 2))
    stack = Stack(problem, Data(), Batches(inner=(None,), outer=(None,)), (torch.tensor([0, 1]), torch.tensor([1, 3])))
    point = stack.point(1)
    assert point.v[0].tolist() == [5.0, 7.0]
    assert point.theta[0].tolist() == [2.0, 3.0]


def test_observed_afresh_is_what_v_gives_with_the_inner_problem_solved() -> None:
    task = lls(start="a")
    task = replace(task, resolve=task.solve_inner, observe=lambda point: {"first": float(point.theta[0][0])})
    v = (torch.tensor(7.0, dtype=torch.float64),)
    assert task.observe_afresh(Pair(v, task.problem.point.theta)) == {"first": 7.0}


def test_nothing_is_observe_afresh_where_the_inner_problem_cannot_be_solved() -> None:
    task = quadratic()
    assert task.observe_afresh(task.problem.point) == {}
