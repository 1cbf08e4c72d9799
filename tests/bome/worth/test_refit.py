"""Refits: F(v) in closed form, and that nothing else changes."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from bome import Data, GradientDescent, Minibatches, PerSample, Problem, Solver, TorchOptim, box, simplex
from bome.data import Loader
from bome.errors import ProblemError
from bome.oracles import Oracle
from bome.tasks import quadratic, quadratic_instance
from bome.worth import Start, refit
from tests.support.samples import NAMES, ORACLES, Name


@pytest.mark.parametrize("name", NAMES)
def test_f_is_taken_where_gradient_descent_on_g_alone_ends(name: Name) -> None:
    """θ_N = Av + (I − αH)^N (θ_0 − Av) from the start of the run, or from where θ is."""
    instance, problem = quadratic_instance(), quadratic(start="b").problem
    start = Start(problem)
    (v,), (theta,) = problem.point
    v.sub_(0.3), theta.mul_(-2.0)
    left = torch.linalg.matrix_power(torch.eye(4).double() - 0.1 * instance.H, 20)
    for origin, first in ((None, theta.clone()), (start, start.theta[0])):
        end = instance.A @ v + left @ (first - instance.A @ v)
        found = refit(problem, GradientDescent(0.1, 20), start=origin, oracle=name)
        assert pytest.approx(float(instance.outer(v, end)), rel=1e-12) == found.F
        fifth = torch.linalg.matrix_power(torch.eye(4).double() - 0.1 * instance.H, 4)
        early = instance.A @ v + fifth @ (first - instance.A @ v)
        assert found.f_early == pytest.approx(float(instance.outer(v, early)), rel=1e-12)
        assert found.f == pytest.approx(float(instance.outer(v, theta)), rel=1e-12)
        assert found.f_start == pytest.approx(float(instance.outer(v, first)), rel=1e-12)
        assert found.slope == pytest.approx(float((instance.H @ (first - instance.A @ v)).norm()), rel=1e-12)
        assert found.warm == (origin is None)
    assert found.slope_first == pytest.approx(float((instance.H @ (first - instance.A @ start.v[0])).norm()), rel=1e-12)
    assert found.evaluations == {"f": 4, "g": 24}


def test_what_is_known_of_how_g_fell() -> None:
    """g = ½θ², α = ½: it falls to a quarter in each step. Of 4 values the first, the second and the last count."""
    problem = Problem(lambda v, t, b: v + t, lambda v, t, b: 0.5 * t.square(), torch.tensor(0.0), torch.tensor(1.0))
    found = refit(problem, GradientDescent(0.5, 4))
    values = [0.5 / 4**t for t in range(4)]
    assert (found.g_start, found.g) == (values[0], values[3])
    assert found.late == pytest.approx((values[1] - values[3]) / (values[0] - values[3]))


def _noisy() -> tuple[Problem, Data]:
    torch.manual_seed(0)
    x, y = torch.randn(24, 4), torch.randn(24, 2)
    net = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Dropout(0.3), nn.Linear(5, 2))
    loader = DataLoader(TensorDataset(x, y), batch_size=7, shuffle=True)

    def inner(v: Tensor, net: nn.Module, batch: Any) -> Tensor:
        miss: Tensor = (net(batch[0]) - batch[1]).square().mean()
        return miss + v.exp() * torch.stack([p.square().sum() for p in net.parameters()]).sum()

    def outer(v: Tensor, net: nn.Module, batch: Any) -> Tensor:
        loss: Tensor = (net(batch.data[0]) - batch.data[1]).square().mean()
        return loss

    return Problem(outer, inner, torch.tensor(-3.0), net), Data(outer=Minibatches((x, y), 6), inner=Loader(loader))


@pytest.mark.parametrize("kind", ORACLES)
def test_nothing_but_time_passes(kind: type[Oracle]) -> None:
    """Variables, statistics, generators, streams and counts are as before, and the next batches are the same."""
    problem, data = _noisy()
    data.draw(outer=2, inner=3)
    oracle = kind(problem)
    oracle.counts["g"] = 7
    before = [x.clone() for x in (*problem.v.leaves, *problem.theta.leaves, *problem.buffers.values())]
    random, positions = torch.get_rng_state(), data.state_dict()
    found = refit(problem, GradientDescent(0.05, 10), data=data, start=Start(problem), oracle=oracle)
    assert found.evaluations == {"f": 20, "g": 14}
    after = (*problem.v.leaves, *problem.theta.leaves, *problem.buffers.values())
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert torch.equal(torch.get_rng_state(), random)
    assert oracle.counts == {"g": 7}
    assert str(data.state_dict()) == str(positions)
    again = refit(problem, GradientDescent(0.05, 10), data=data, start=Start(problem), oracle=oracle)
    assert again == found


def test_running_statistics_follow_the_refitted_theta() -> None:
    """f in evaluation mode sees the statistics of the new θ, gathered over all steps, not those of the live one."""
    torch.manual_seed(0)
    x = 3 + torch.randn(16, 2)
    net = nn.BatchNorm1d(2)

    def outer(v: Tensor, net: Any, batch: Any) -> Tensor:
        mean: Tensor = net.running_mean.square().sum() + 0 * v
        return mean

    problem = Problem(outer, lambda v, net, b: (net(x) - v).square().mean(), torch.tensor(0.0), net)
    found = refit(problem, GradientDescent(0.1, 50))
    assert found.f == 0
    assert pytest.approx(float(x.mean(0).square().sum()), rel=0.02) == found.F
    assert float(net.running_mean.abs().sum()) == 0  # type: ignore[union-attr]


def test_it_is_judged_on_data_of_its_own_where_there_are_some() -> None:
    problem = Problem(
        lambda v, t, shift: (t - shift).square() + 0 * v,
        lambda v, t, b: (t - v).square(),
        torch.tensor(2.0),
        torch.tensor(0.0),
    )
    found = refit(problem, GradientDescent(0.5, 1), data=Data(), judge_on=5.0)
    assert (found.F, found.f) == (9.0, 25.0)


def test_how_flat_v_has_made_g_is_seen_at_the_start_and_on_its_other_side() -> None:
    """g = v²(θ − 1)²/2 with v from 1 to ½ has ¼ of its slope everywhere; g = (θ − v)²/2 is flat at θ = v alone."""
    v, theta = torch.tensor(1.0), torch.tensor(0.0)
    scaled = Problem(lambda v, t, b: t.square(), lambda v, t, b: (v * (t - 1)).square() / 2, v, theta)
    start = Start(scaled)
    v.fill_(0.5), theta.fill_(0.2)
    assert refit(scaled, GradientDescent(0.1, 3), start=start).flat == pytest.approx(0.25)
    v, theta = torch.tensor(1.0), torch.tensor(0.0)
    moved = Problem(lambda v, t, b: t.square(), lambda v, t, b: (t - v).square() / 2, v, theta)
    start = Start(moved)
    v.fill_(0.0), theta.fill_(0.5)  # at 0 the slope went from 1 to 0, at −½ from 1½ to ½
    assert refit(moved, GradientDescent(0.1, 3), start=start).flat == pytest.approx(1 / 3)
    assert refit(moved, GradientDescent(0.1, 3)).flat is None


def test_theta_that_diverges_is_told() -> None:
    problem = Problem(lambda v, t, b: t.square() + v, lambda v, t, b: t.square(), torch.tensor(0.0), torch.tensor(1.0))
    found = refit(problem, GradientDescent(10.0, 200))
    assert math.inf == found.F
    assert found.warnings == ("θ diverges when it is trained on g alone: refit with smaller steps",)
    assert float(problem.point.theta[0]) == 1.0


def test_a_v_that_has_switched_g_off_is_told() -> None:
    """g = v (θ − 1)², and v went from 1 to 1e-4."""
    v, theta = torch.tensor(1.0), torch.tensor(0.0)
    problem = Problem(lambda v, t, b: (t - 1).square(), lambda v, t, b: v * (t - 1).square(), v, theta)
    start = Start(problem)
    v.fill_(1e-4), theta.fill_(0.2)
    found = refit(problem, GradientDescent(0.1, 50), start=start)
    assert any(text.startswith("v has switched g off") for text in found.warnings)
    v.fill_(0.5)
    assert not refit(problem, GradientDescent(0.1, 50), start=start).warnings


@pytest.mark.parametrize(
    ("values", "rule", "told"),
    [
        ([0.0, 0.0], box(0, 1), True),
        ([1.0, 1.0], box(0, 1), True),
        ([0.0, 1.0], box(0, 1), False),
        ([0.0, 0.5], box(0, 1), False),
        ([0.0, 1.0], simplex(), True),
        ([0.1, 0.9], simplex(floor=0.1), True),
        ([0.1, 0.9], simplex(), False),
    ],
)
def test_a_v_that_lies_on_one_bound_is_told(values: list[float], rule: Any, told: bool) -> None:
    v = torch.tensor(values)
    problem = Problem(
        lambda v, t, b: t.square() + v.sum(), lambda v, t, b: (t - v.sum()).square(), v, torch.zeros(()), rule
    )
    found = refit(problem, GradientDescent(0.5, 3))
    assert found.on_bounds == (("v",) if told else ())


def test_rows_of_single_samples_are_those_of_the_batches() -> None:
    """Weights w_i of ½(θ − y_i)²: full batches, so θ* is the weighted mean."""
    y, table = torch.tensor([0.0, 2.0, 4.0]), PerSample(3, 1.0)
    table.values.copy_(torch.tensor([1.0, 0.0, 1.0]))

    def inner(w: Tensor, theta: Tensor, batch: Any) -> Tensor:
        loss: Tensor = 0.25 * (w * (theta - batch.data[0]).square()).sum()
        return loss

    problem = Problem(lambda w, t, b: t.square(), inner, table, torch.tensor(9.0))
    found = refit(problem, GradientDescent(0.5, 60), data=Data(inner=Minibatches((y,), 3)))
    assert pytest.approx(4.0) == found.F


@pytest.mark.parametrize(
    "inner", [Solver(lambda v, theta, batch: v), TorchOptim(lambda p: torch.optim.Adam(p, 0.1), 400)]
)
def test_any_inner_map_can_train(inner: Any) -> None:
    v, theta = torch.tensor(3.0), torch.tensor(0.0)
    problem = Problem(lambda v, t, b: t.square(), lambda v, t, b: (t - v).square(), v, theta)
    assert pytest.approx(9.0, rel=1e-3) == refit(problem, inner).F


def test_a_start_of_another_problem_and_what_is_no_inner_map_are_refused() -> None:
    one, other = quadratic().problem, _noisy()[0]
    with pytest.raises(ProblemError, match="another problem"):
        refit(one, GradientDescent(0.1, 3), start=Start(other))
    with pytest.raises(ProblemError, match="inner must be an inner map"):
        refit(one, 0.1)  # type: ignore[arg-type]
