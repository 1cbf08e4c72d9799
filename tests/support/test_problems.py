"""The test problems themselves: their hypergradients in closed form against finite differences."""

import pytest
import torch

from tests.support.problems import EXAMPLES, dense, flat, relative


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_inner_problem_is_solved_and_strongly_convex(name: str) -> None:
    example = EXAMPLES[name]()
    point = example.problem.point
    at = dense(example.problem, flat(point.v), flat(point.theta))
    assert float(at.g_theta.norm()) <= 1e-12
    assert 1 / (example.lr * example.mu) <= 10  # the condition number, which tells how many inner steps tests need


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_exact_hypergradient_is_that_of_finite_differences(name: str) -> None:
    example = EXAMPLES[name]()
    assert relative(example.finite_differences(), example.hypergradient) <= 1e-9


@pytest.mark.parametrize("name", ["quadratic", "ridge"])
def test_closed_forms_equal_the_implicit_function_theorem(name: str) -> None:
    example = EXAMPLES[name]()
    point = example.problem.point
    at = dense(example.problem, flat(point.v), flat(point.theta))
    torch.testing.assert_close(at.hypergradient, example.hypergradient, rtol=1e-12, atol=1e-12)
