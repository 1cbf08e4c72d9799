"""A variable as one vector."""

import pytest
import torch
from torch import nn

from bome import Problem, UnsupportedError, ball, box
from bome.nested.vectors import Vector


def _problem(v: object, **sets: object) -> Problem:
    return Problem(lambda *a: torch.zeros(()), lambda *a: torch.zeros(()), v, torch.zeros(1), **sets)  # type: ignore[arg-type]


def test_one_tensor_is_a_view() -> None:
    problem = _problem(torch.arange(6.0).reshape(2, 3))
    vector = Vector(problem.v, problem.project_v)
    x = torch.arange(6.0)
    (leaf,) = vector.leaves(x)
    assert leaf.shape == (2, 3)
    assert leaf.data_ptr() == x.data_ptr()


def test_several_tensors_of_several_dtypes_come_back() -> None:
    leaves = {"a": torch.ones(2, 2), "b": torch.full((3,), 2.0, dtype=torch.float64)}
    problem = _problem(leaves, project_v={"a": box(0, 0.5)})
    vector = Vector(problem.v, problem.project_v)
    assert vector.start.tolist() == [1, 1, 1, 1, 2, 2, 2]
    assert vector.start.dtype == torch.float64
    assert vector.project(vector.start).tolist() == [0.5] * 4 + [2] * 3
    vector.write(torch.arange(7.0, dtype=torch.float64))
    assert leaves["a"].tolist() == [[0, 1], [2, 3]]
    assert leaves["a"].dtype == torch.float32


def test_a_module_is_its_parameters() -> None:
    net = nn.Linear(2, 1)
    problem = _problem(net)
    Vector(problem.v, problem.project_v).write(torch.tensor([1.0, 2.0, 3.0]))
    assert net.weight.tolist() == [[1, 2]]
    assert net.bias.tolist() == [3]


def test_a_set_that_is_not_flat_has_no_rows() -> None:
    problem = _problem(torch.ones(2), project_v=ball(1))
    vector = Vector(problem.v, problem.project_v)
    with pytest.raises(UnsupportedError, match="flat"):
        vector.rows()


def test_where_there_is_no_v_its_vector_is_one_zero() -> None:
    problem = Problem(lambda *a: torch.zeros(()), lambda *a: torch.zeros(()), theta=torch.zeros(1))
    vector = Vector(problem.v, problem.project_v)
    assert vector.start.tolist() == [0]
    assert vector.leaves(vector.start) == ()
    assert vector.project(vector.start).tolist() == [0]
    assert [len(part) for part in vector.rows()] == [0, 0, 0, 0]


def test_the_start_does_not_follow_the_live_tensor() -> None:
    problem = _problem(torch.zeros(2))
    vector = Vector(problem.v, problem.project_v)
    vector.write(torch.ones(2))
    assert vector.start.tolist() == [0, 0]
