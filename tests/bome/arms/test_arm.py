"""One arm: what its steps do to v and θ."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from bome import Data, Minibatches, PerSample, Problem
from bome.arms.arm import EPISODE, MOST_FAILURES, Arm, Choices, look, sizes
from bome.arms.curvature import Curvature
from bome.core.trees import Pair
from bome.oracles import make
from bome.tasks import quadratic, quadratic_instance
from bome.worth import Start
from tests.support.arms import penalties


def started(name: str, problem: Problem, data: Data | None = None, choices: Choices | None = None) -> Arm:
    choices = choices if choices is not None else Choices()
    curvature = Curvature(fixed=choices.lr)
    return Arm(name, make(problem, "auto"), data or Data(), Start(problem), curvature, choices, sizes(problem.point))


def test_the_curvature_is_that_of_g_where_theta_stands() -> None:
    """g = ½ (θ − Av)ᵀ H (θ − Av): ‖Hd‖ / ‖d‖ with d its gradient; two evaluations."""
    problem, instance, curvature = quadratic(start="b").problem, quadratic_instance(), Curvature()
    (v,), (theta,) = problem.point
    d = instance.H @ (theta - instance.A @ v)
    oracle = make(problem, "auto")
    look(oracle, None, curvature)
    assert pytest.approx(float((instance.H @ d).norm() / d.norm())) == curvature.L
    assert oracle.counts == {"g": 2}


def test_the_first_step_of_v_is_a_share_of_its_size() -> None:
    """Adam's first step is ξ in every entry; ξ = c · rms(v_0), and it falls to 0 with the share."""
    for name, c in (("young", 0.06), ("old", 0.03)):
        for spent, factor in ((0.0, 1.0), (0.5, 0.5), (1.0, 0.0)):
            problem, data = penalties()
            started(name, problem, data).step(spent)
            moved = (problem.point.v[0] + 3).abs()
            torch.testing.assert_close(moved, torch.full_like(moved, 3 * c * factor))


def test_a_size_of_zero_counts_as_one() -> None:
    assert sizes(Pair((torch.zeros(3), torch.tensor([3.0, 4.0])), ())) == pytest.approx((1.0, 12.5**0.5))


def test_the_young_arm_goes_back_to_its_start_and_the_old_one_never_does() -> None:
    for name, returns in (("young", True), ("old", False)):
        problem, data = penalties()
        arm = started(name, problem, data, Choices(lr=0.1, steps=2))
        for _ in range(EPISODE):
            arm.step(0.0)
        before = float(problem.point.theta[0].norm())
        assert before > 1
        arm.step(0.0)
        assert (float(problem.point.theta[0].norm()) < 0.7 * before) == returns


def test_no_step_costs_more_than_it_says() -> None:
    for name in ("young", "old"):
        problem, data = penalties()
        arm = started(name, problem, data)
        costs = [0]
        for _ in range(EPISODE + 1):
            arm.step(0.0)
            costs.append(sum(arm.stepper.counts.values()))
        assert arm.cost - 1 <= max(b - a for a, b in pairwise(costs)) <= arm.cost


def test_what_is_fixed_is_fixed() -> None:
    problem, data = penalties()
    arm = started("old", problem, data, Choices(lr=0.01, steps=3, reach=0.1, outer_lr=0.5))
    arm.step(0.0)
    method: Any = arm.stepper.method
    assert (method.inner.lr, method.inner.steps, method.reach, arm.lr) == (0.01, 3, 0.1, 0.5)
    torch.testing.assert_close((problem.point.v[0] + 3).abs(), torch.full((6,), 0.5).double())
    assert arm.stepper.counts == {"f": 1, "g": 2 * 3 + 1}


def test_the_young_arm_takes_back_steps_of_v_that_harm() -> None:
    """θ follows v, and f wants θ = 1: steps of 5 from v = 0.9 end far away, steps of 0.01 do not."""

    def arm_of(outer_lr: float) -> tuple[Arm, Problem]:
        v, theta = torch.tensor(0.9), torch.tensor(0.0)
        problem = Problem(lambda v, t, b: (t - 1).square(), lambda v, t, b: (t - v).square(), v, theta)
        choices, oracle = Choices(lr=0.2, outer_lr=outer_lr), make(problem, "auto")
        return Arm("young", oracle, Data(), Start(problem), Curvature(fixed=0.2), choices, (1.0,), (1.0, 0.01)), problem

    for outer_lr, back in ((5.0, True), (0.01, False)):
        arm, problem = arm_of(outer_lr)
        for _ in range(EPISODE):
            arm.step(0.0)
        moved = float(problem.point.v[0])
        assert (abs(moved - 1) > 0.4) == back
        arm.step(0.0)
        assert arm.halved == (0.5 if back else 1.0)
        now = float(problem.point.v[0])
        assert abs(now - (0.9 if back else moved)) == pytest.approx(outer_lr * arm.halved, rel=0.6)


def test_where_the_best_v_fails_as_well_the_one_before_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """f at the ends of episodes: two that get better, then three that do harm."""
    problem, data = penalties()
    arm = started("young", problem, data)
    arm._untrained, arm._good = 3.0, [(2.5, arm._good[0][1])]
    values, seen = iter([2.0, 1.0, 9.0, 9.0, 9.0]), list[float]()
    monkeypatch.setattr(arm, "_judged", lambda: next(values))
    for number in range(5):
        with torch.no_grad():
            problem.v.leaves[0].fill_(float(number))
        arm._look_back()
        seen.append(float(problem.point.v[0][0]))
    assert seen == [0.0, 1.0, 1.0, 0.0, -3.0]
    assert arm.halved == 1 / 8


def test_after_nan_it_goes_back_with_half_the_step_and_gives_up_in_the_end() -> None:
    broken = [False]

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return (theta - v).square() / (0 if broken[0] else 1)

    problem = Problem(lambda v, t, b: (t - 1).square(), inner, torch.tensor(2.0), torch.tensor(0.0))
    arm = started("old", problem)
    assert arm.step(0.0) is not None
    broken[0] = True
    v = float(problem.point.v[0])
    assert arm.step(0.0) is None
    assert (arm.halved, arm.over, float(problem.point.v[0]), float(problem.point.theta[0])) == (0.5, False, v, 0.0)
    for _ in range(MOST_FAILURES - 1):
        arm.step(0.0)
    assert arm.over


def test_rows_of_samples_are_learned() -> None:
    """A weight for each of 12 rows, of which half are wrong: their weights fall, the others rise."""
    x, wrong = torch.ones(12), torch.arange(12) % 2

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        miss: Tensor = (v.sigmoid() * (theta - batch.data[0] * (1 - 2 * wrong[batch.rows])).square()).mean()
        return miss

    table = PerSample(12)
    problem = Problem(lambda v, t, b: (t - 1).square(), inner, table, torch.tensor(0.0))
    arm = started("old", problem, Data(inner=Minibatches((x,), 4)))
    for _ in range(20):
        arm.step(0.0)
    assert bool((table.values[wrong == 1] < 0).all())
    assert bool((table.values[wrong == 0] > 0).all())
