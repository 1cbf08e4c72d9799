"""One run: where it ends, how its levels go on, and that it is a value."""

from dataclasses import replace

import pytest
import torch

from bome.nested.continuation import Run, points
from bome.nested.search import Search
from bome.nested.survey import survey
from tests.support.nested import losses_of, quadratic, two_wells


def _search(problem_is: str = "quadratic") -> Search:
    losses = losses_of(quadratic() if problem_is == "quadratic" else two_wells())
    from bome.nested.search import sets_of

    return Search(losses, survey(losses, sets_of(losses), 0), 0)


def _ended(search: Search, run: Run) -> list[Run]:
    runs = [run]
    while runs[-1].ended is None:
        runs.append(search.continuation.advance(runs[-1]))
    return runs


def test_it_ends_at_the_solution_in_closed_form() -> None:
    """θ*(v) = (I + B)⁻¹ A v, and F is a quadratic function of v."""
    a = torch.tensor([[1.0, 0.5], [-0.3, 2.0]], dtype=torch.float64)
    b = torch.tensor([[1.5, 0.2], [0.2, 2.0]], dtype=torch.float64)
    m = torch.linalg.solve(b, a)
    right = torch.tensor([1.0, 2.0], dtype=torch.float64) + m.T @ torch.tensor([2.0, -1.0], dtype=torch.float64)
    v = torch.linalg.solve(torch.eye(2, dtype=torch.float64) + m.T @ m, right)
    search = _search()
    last = _ended(search, search.start(0, []))[-1]
    end = last.found[-1]
    assert last.ended == "θ solves the inner problem"
    assert end.v.tolist() == pytest.approx(v.tolist(), abs=2e-3)
    assert end.theta.tolist() == pytest.approx((m @ v).tolist(), abs=2e-3)
    assert [point.sigma for point in last.found] == sorted(point.sigma for point in last.found)


def test_q_falls_from_level_to_level() -> None:
    search = _search()
    found = _ended(search, search.start(0, []))[-1].found
    assert len(found) > 1
    assert found[-1].q < found[0].q / 5


def test_a_run_is_a_value_that_can_be_gone_on_with_twice() -> None:
    search = _search("two wells")
    runs = _ended(search, search.start(0, []))
    middle = runs[len(runs) // 2]
    again = _ended(search, middle)[-1]
    assert [tuple(point.v.tolist()) for point in again.found] == [tuple(p.v.tolist()) for p in runs[-1].found]
    assert again.psi == runs[-1].psi


def test_the_lower_well_is_found_from_a_start_in_the_higher_one() -> None:
    search = _search("two wells")
    end = _ended(search, search.start(0, []))[-1].found[-1]
    assert float(end.theta) < 0
    assert end.f == pytest.approx(-1, abs=0.05)


def test_the_best_point_of_an_unfinished_level_counts() -> None:
    search = _search()
    run = search.continuation.advance(search.start(0, []))
    assert run.found == ()
    assert len(points(run)) == 1


def test_a_run_that_comes_to_where_another_was_ends_as_that() -> None:
    search = _search()
    other = _ended(search, search.start(0, []))[-1]
    assert len(other.found) > 2
    run = replace(search.start(4, []), sigma=other.found[0].sigma)
    while run.ended is None:
        run = search.continuation.advance(run, [replace(other, number=3)])
    assert run.ended == "as run 3"
    assert run.found[-1] is other.found[-1]
    assert len(run.found) == 2
    alone = _ended(search, replace(search.start(4, []), sigma=other.found[0].sigma))[-1]
    assert alone.psi > run.psi
    assert alone.found[-1].f == pytest.approx(other.found[-1].f, abs=1e-3)
