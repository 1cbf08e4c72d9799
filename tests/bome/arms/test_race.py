"""The race: closed forms, the books, and that the best v measured is what is left."""

from typing import Any

import pytest
import torch
from torch import Tensor

from bome import Data, Problem
from bome.arms.arm import Choices
from bome.arms.race import FIRST, Race, Terms
from bome.core.trees import clone
from bome.oracles import make
from bome.tasks import quadratic, quadratic_instance
from tests.support.arms import penalties


def raced(problem: Problem, data: Data, terms: Terms) -> Race:
    race = Race(make(problem, "auto"), data, terms, clock=lambda: 0.0, watch=lambda: None, told=lambda stage, row: None)
    race.run()
    return race


@pytest.mark.parametrize("arm", [None, "young", "old"])
def test_it_finds_the_solution_of_the_quadratic(arm: str | None) -> None:
    task, instance = quadratic(start="b"), quadratic_instance()
    v, theta = instance.solution()
    race = raced(task.problem, Data(), Terms(4000, 200, Choices(arm=arm, outer_lr=0.1)))
    first, best = race.judged[FIRST].F, race.judged[race.winner].F
    least = float(instance.outer(v, theta))
    assert best - least < 0.05 * (first - least)


def test_what_v_is_worth_is_where_descent_on_g_ends() -> None:
    """With α fixed: θ_H = Av + (I − αH)^H (θ_0 − Av) for the v of the start and for the best one."""
    task, instance = quadratic(start="b"), quadratic_instance()
    (v,), (theta,) = map(clone, task.problem.point)
    race = raced(task.problem, Data(), Terms(2000, 50, Choices(lr=0.1)))
    left = torch.linalg.matrix_power(torch.eye(4).double() - 0.1 * instance.H, 50)
    for worth, each in ((race.judged[FIRST].F, v), (race.judged[race.winner].F, race.best.v[0])):
        end = instance.A @ each + left @ (theta - instance.A @ each)
        assert pytest.approx(float(instance.outer(each, end)), rel=1e-9) == worth
    torch.testing.assert_close(race.best.theta[0], end)


def test_the_lowest_f_measured_wins_and_the_books_balance() -> None:
    problem, data = penalties()
    race = raced(problem, data, Terms(3000, 100))
    names = list(race.judged)
    assert names[:3] == ["start", "young", "old"]
    assert names[3:] == [f"{min(('young', 'old'), key=lambda name: race.judged[name].F)} 2"]
    assert race.judged[race.winner].F == min(refit.F for refit in race.judged.values()) < race.judged[FIRST].F
    assert sum(race.spent.values()) == sum(race.counts.values())
    assert 2900 < sum(race.spent.values()) <= 3000
    assert set(race.spent) == {"refits", "young", "old"}
    assert problem.project_v((race.best.v[0],))[0].equal(race.best.v[0])


def test_where_nothing_helps_v_stays() -> None:
    """f rises whichever way v goes from where it is."""

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return (theta - v).square().sum()

    v = torch.tensor([1.0, -1.0], dtype=torch.float64)
    problem = Problem(lambda v, t, b: (t - torch.tensor([1.0, -1.0])).square().sum(), inner, v, torch.zeros(2).double())
    race = raced(problem, Data(), Terms(1000, 50))
    assert race.winner == FIRST
    assert race.best.v[0].tolist() == [1.0, -1.0]


def test_every_v_is_judged_on_the_same_batches() -> None:
    """A v that does not matter is worth the same after every stage, to the last bit."""
    problem, data = penalties()

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return problem.inner(0 * v - 3, theta, batch)

    still = Problem(problem.outer, inner, problem.v.value, problem.theta.value)
    race = raced(still, data, Terms(1500, 60, Choices(lr=0.05)))
    assert len({refit.F for refit in race.judged.values()}) == 1


def test_it_works_in_float32() -> None:
    problem, data = penalties(torch.float32)
    race = raced(problem, data, Terms(2000, 100))
    assert race.judged[race.winner].F < 0.95 * race.judged[FIRST].F
    assert race.best.v[0].dtype == torch.float32
