"""What all toys have in common: gradients, solutions, distances, starts and names."""

import math

import pytest
import torch

from bome.core.trees import Pair
from bome.errors import ProblemError
from bome.oracles import AutogradOracle
from bome.tasks import TASKS, Task, quadratic_instance
from tests.support.toys import VARIANTS, loss, random_points, tensor

STARTS = {
    "coreset": ("a", "b", "c"),
    "minimax": ("a",),
    "lls": ("a",),
    "quadratic": ("a", "b"),
    "sine": ("three", "zero", "eight", "mixed"),
}


CASES = [(name, variant) for name, variants in VARIANTS.items() for variant in variants]


SOLVABLE = [case for case in CASES if case != ("minimax", "paper")]  # whose inner problem has no solution for v ≠ 0


def _solution(task: Task) -> Pair:
    """A solution of the task, from the formulas of its docstring; of the coreset one within 1e-15 of the limit."""
    if task.name == "coreset":
        weights = (0.8, 0.2) if task.variant == "code" else (1.0, 1e-18)
        v = tensor(-40.0, math.log(weights[0]), -40.0, math.log(weights[1]))
        return Pair((v,), (tensor(1.8, 0.4) if task.variant == "code" else tensor(3.0, 1.0),))
    if task.name == "minimax":
        return Pair((tensor(0.0),), (tensor(-3.0),))
    if task.name == "lls":
        return Pair((tensor(1.0),), (tensor(1.0, 1.0),))
    if task.name == "quadratic":
        i = quadratic_instance(task.variant)
        v = torch.linalg.inv(i.A.T @ i.A + torch.eye(3, dtype=torch.float64)) @ (i.A.T @ i.a + i.b)
        return Pair((v,), (i.A @ v,))
    phase = 1.5 * math.pi  # the trough of the sine nearest to 2a = 4
    v_star = (-2 + 2 * phase) / 3
    return Pair((tensor(v_star),), (tensor(phase + 2 - v_star, phase + 2 - v_star),))


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_gradients_agree_with_finite_differences(name: str, variant: str) -> None:
    """Central differences with step 1e-5 have errors of about 1e-10 (third derivatives times 1e-10, and rounding)."""
    task = TASKS[name](variant)
    oracle = AutogradOracle(task.problem)
    for point in random_points(task, 5):
        for which, evaluate in (("f", oracle.outer), ("g", oracle.inner)):
            gradient = evaluate(*point, None).grad
            for part, (leaf, slope) in enumerate(zip(point.v + point.theta, gradient.v + gradient.theta, strict=True)):
                for i in range(leaf.numel()):
                    ends = []
                    for h in (1e-5, -1e-5):
                        moved = [point.v[0].clone(), point.theta[0].clone()]
                        moved[part].view(-1)[i] += h
                        ends.append(loss(task, which, *moved))
                    expected = (ends[0] - ends[1]) / 2e-5
                    assert float(slope.reshape(-1)[i]) == pytest.approx(expected, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_the_optimum_is_feasible_and_has_the_stated_value_at_distance_zero(name: str, variant: str) -> None:
    task = TASKS[name](variant)
    solution = _solution(task)
    assert task.optimum is not None
    assert task.optimum.distance(solution) <= 1e-12
    assert loss(task, "f", solution.v[0], solution.theta[0]) == pytest.approx(task.optimum.f, abs=1e-12)
    assert float(AutogradOracle(task.problem).inner(*solution, None).grad.theta[0].abs().max()) <= 1e-12


@pytest.mark.parametrize(("name", "variant"), SOLVABLE)
def test_no_feasible_point_has_a_lower_value_than_the_optimum(name: str, variant: str) -> None:
    """Points near the solution and far from it; `solve_inner` makes them feasible."""
    task = TASKS[name](variant)
    solution = _solution(task)
    assert task.optimum is not None
    assert task.solve_inner is not None
    for scale in (1e-3, 0.1, 2.0):
        for shift in random_points(task, 100, scale):
            v = (solution.v[0] + shift.v[0],)
            theta = task.solve_inner(v, (solution.theta[0] + shift.theta[0],))
            assert loss(task, "f", v[0], theta[0]) >= task.optimum.f - 1e-12


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_the_distance_grows_away_from_the_solution(name: str, variant: str) -> None:
    """Moving the variable in which the solution is unique by 0.1 in one entry moves the point by 0.1 from the set."""
    task = TASKS[name](variant)
    solution = _solution(task)
    assert task.optimum is not None
    if name == "minimax":
        moved = Pair((solution.v[0] + 0.1,), solution.theta)
    else:
        theta = solution.theta[0].clone()
        theta[1] += 0.1
        moved = Pair(solution.v, (theta,))
    assert task.optimum.distance(moved) == pytest.approx(0.1, rel=1e-9)


@pytest.mark.parametrize(("name", "variant"), SOLVABLE)
def test_solve_inner_is_where_long_gradient_descent_ends(name: str, variant: str) -> None:
    """2,000 steps of the task's own α, projected where the task projects."""
    task = TASKS[name](variant)
    assert task.solve_inner is not None
    oracle = AutogradOracle(task.problem)
    for point in random_points(task, 3):
        theta = point.theta
        for _ in range(2000):
            moved = theta[0] - task.settings.inner_lr * oracle.inner(point.v, theta, None, wrt="theta").grad.theta[0]
            theta = task.problem.project_theta((moved,))
        torch.testing.assert_close(task.solve_inner(*point), theta, rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("name", "variant"), CASES)
def test_every_start_gives_fresh_variables_of_the_dtype(name: str, variant: str, dtype: torch.dtype) -> None:
    for start in STARTS[name]:
        first, second = (TASKS[name](variant=variant, start=start, seed=1, dtype=dtype) for _ in range(2))
        assert (first.name, first.variant, first.start) == (name, variant, start)
        for one, other in zip(sum(first.problem.point, ()), sum(second.problem.point, ()), strict=True):
            assert one.dtype == dtype
            assert torch.equal(one, other)
            assert one.data_ptr() != other.data_ptr()
        assert first.problem.outer(first.problem.v.leaves[0], first.problem.theta.leaves[0], None).dtype == dtype


@pytest.mark.parametrize("name", VARIANTS)
def test_unknown_names_are_refused_with_the_known_ones(name: str) -> None:
    make = TASKS[name]
    with pytest.raises(ProblemError, match=f"unknown variant of {name} 'zzz'; known: {', '.join(VARIANTS[name])}"):
        make(variant="zzz")
    with pytest.raises(ProblemError, match=f"unknown start of {name} 'zzz'; known: {', '.join(STARTS[name])}"):
        make(start="zzz")
