"""Constraints: their forms, their order, and every wrong input with what is said about it."""

from typing import Any

import pytest
import torch
from torch import Tensor

from bome import Batches, PerSample, Problem, Stepper
from bome.constraints import Constraints, Sizes
from bome.errors import ProblemError, UnsupportedError
from bome.oracles.autograd import check_constraints
from tests.support.samples import bome, toy

V, THETA = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0, 5.0])


def test_kinds_stand_in_one_order_and_equalities_are_marked() -> None:
    sizes = Sizes(1, 2, 1, 1)
    assert (sizes.inner, sum(sizes)) == (3, 5)
    assert sizes.equalities == (False, True, True, False, True)


@pytest.mark.parametrize(
    "form",
    [
        lambda v, theta, batch: torch.stack([v[0], theta[2]]),
        lambda v, theta, batch: torch.stack([v[0], theta[2]])[None, :, None],
        lambda v, theta, batch: [v[0], theta[2]],
        lambda v, theta, batch: (v[:1], theta[2]),
    ],
)
def test_tensors_of_any_shape_and_lists_are_flattened(form: Any) -> None:
    (part, *others) = Constraints(inner_constraints=form).parts("both", V, THETA, None, None, torch.zeros(0))
    torch.testing.assert_close(part, torch.tensor([1.0, 5.0]))
    assert [len(x) for x in others] == [0, 0, 0]


def test_inner_ones_see_the_inner_batch_and_outer_ones_the_outer_one() -> None:
    """And at the level of the inner problem the outer ones are not called."""
    constraints = Constraints(
        inner_constraints=lambda v, theta, batch: v[0] + batch,
        inner_equalities=lambda v, theta, batch: theta + batch,
        outer_equalities=lambda v, theta, batch: v - batch,
    )
    parts = constraints.parts("both", V, THETA, 10, 100, torch.zeros(0))
    assert [part.tolist() for part in parts] == [[11.0], [13.0, 14.0, 15.0], [], [-99.0, -98.0]]
    parts = constraints.parts("inner", V, THETA, 10, None, torch.zeros(0))
    assert [len(part) for part in parts] == [1, 3, 0, 0]


def test_without_functions_there_are_none() -> None:
    assert not Constraints()
    assert not toy().constraints
    assert toy(outer_equalities=lambda v, theta, batch: v).constraints


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no function": ({"inner_constraints": 3}, "inner_constraints must be a function (v, theta, batch) -> vector"),
    "a number": ({"outer_constraints": lambda v, t, b: 1.0}, "outer_constraints must return a tensor or a list"),
    "a list of numbers": ({"inner_constraints": lambda v, t, b: [v, 1.0]}, "a list of them, got float"),
    "integers": ({"inner_equalities": lambda v, t, b: v.long()}, "must return real numbers, got torch.int64"),
    "a constant": (
        {"inner_constraints": lambda v, t, b: torch.ones(2)},
        "no gradient flows from inner_constraints to v or theta",
    ),
    "detached": ({"outer_equalities": lambda v, t, b: t.detach()}, "no gradient flows from outer_equalities"),
    "not finite": (
        {"inner_constraints": lambda v, t, b: (t - torch.tensor([0.0, 2.0])).log()},
        "entry 1 of inner_constraints is NaN or infinite at the start",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_input_is_named_in_one_line(name: str) -> None:
    options, message = WRONG[name]
    with pytest.raises(ProblemError) as refusal:
        check_constraints(toy(**options), Batches())
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_rows_of_single_samples_have_no_constraints() -> None:
    with pytest.raises(ProblemError, match="a step sees only the rows of a PerSample"):
        Problem(
            lambda v, theta, batch: theta.sum(),
            lambda v, theta, batch: theta.sum(),
            PerSample(4),
            torch.ones(2),
            inner_constraints=lambda v, theta, batch: theta,
        )


def test_methods_without_a_place_for_them_say_what_to_use() -> None:
    problem = toy(inner_constraints=lambda v, theta, batch: theta)
    with pytest.raises(UnsupportedError, match="bome takes no constraints: use the method bome-qp"):
        Stepper(problem, bome(), torch.optim.SGD(problem.v.leaves, 0.1))


def test_a_vector_may_be_empty() -> None:
    def nothing(v: Tensor, theta: Tensor, batch: Any) -> list[Tensor]:
        return []

    check_constraints(toy(inner_constraints=nothing), Batches())
