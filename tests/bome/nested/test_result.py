"""The distinct solutions of a search."""

import bome
from bome.nested.continuation import Run
from bome.nested.result import distinct
from bome.nested.value import Point, Units
from tests.support.nested import losses_of, quadratic, vector


def _point(f: float, v: float) -> Point:
    return Point(f, 0.0, 1.0, vector(v, 0.0), vector(0.0, 0.0), 0.1)


def _run(number: int, point: Point) -> Run:
    return Run(number, point.v, point.theta, 1.0, found=(_point(9.0, 9.0), point))


def test_runs_that_end_alike_count_together() -> None:
    one, near, other = _point(1.0, 0.0), _point(1.001, 0.001), _point(1.0, 0.5)
    runs = [_run(0, near), _run(1, one), _run(2, other)]
    order = [one, near, other, _point(9.0, 9.0)]
    found = distinct(losses_of(quadratic()), order, runs, Units(), 1.0)
    assert [(each.f, each.runs) for each in found] == [(1.0, 2), (1.0, 1)]
    assert found[1].v[0].tolist() == [0.5, 0]


def test_the_answer_is_among_the_solutions_though_no_run_has_ended_there() -> None:
    best, other, run = _point(1.0, 0.0), _point(2.0, 1.0), Run(0, vector(0.0, 0.0), vector(0.0, 0.0), 1.0)
    found = distinct(losses_of(quadratic()), [best, other], [run], Units(), 1.0)
    assert [(each.f, each.runs) for each in found] == [(1.0, 0)]


def test_a_solution_prints_what_one_wants_to_know_first() -> None:
    solution = bome.solve(quadratic(inner_constraints=lambda v, theta, b: theta[:1] - 0.2), budget=1500)
    first, v, theta, price, *_, last = str(solution).splitlines()
    assert first.startswith(f"F(v) = {solution.f:.6g}, solved as far as")
    assert v == f"v = {float(solution.v[0]):.5g}, {float(solution.v[1]):.5g}"
    assert theta.startswith("θ*(v) = 0.2, ")
    assert price.startswith("price of inner_constraints: ")
    assert last == f"{solution.runs} runs, {sum(solution.spent.values()):,} evaluations"


def test_what_only_looks_better_since_theta_does_not_solve_the_inner_problem_is_no_solution() -> None:
    best, false = _point(1.0, 0.0), _point(0.9, 0.5)._replace(q=0.5)
    found = distinct(losses_of(quadratic()), [best, false], [_run(0, best), _run(1, false)], Units(), 1.0)
    assert [each.f for each in found] == [1.0]
