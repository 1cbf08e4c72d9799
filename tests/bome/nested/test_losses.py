"""Losses at vectors: what they cost, what is kept, and what is refused."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bome import PerSample, Problem
from bome.errors import ProblemError, UnsupportedError
from bome.nested.losses import Meter, Spent, check_problem
from tests.support.nested import losses_of, quadratic, vector


def test_a_sum_costs_an_evaluation_for_each_loss_in_it() -> None:
    losses = losses_of(quadratic())
    v, theta = vector(0.3, -0.2), vector(0.5, 0.4)
    both = losses.weighted(1.0, 3.0, v, theta)
    f, g = losses.weighted(1.0, 0.0, v, theta), losses.weighted(0.0, 1.0, v, theta)
    assert losses.meter.total == 4
    assert losses.oracle.counts == {"f": 2, "g": 2}
    assert both.value == pytest.approx(f.f + 3 * g.g)
    torch.testing.assert_close(both.theta, f.theta + 3 * g.theta)
    torch.testing.assert_close(both.v, f.v + 3 * g.v)


def test_the_meter_says_no_before_it_is_too_late() -> None:
    meter = Meter(3)
    with meter.on("a"), meter.on("b"):
        meter.charge(2)
    with meter.on("b"), pytest.raises(Spent):
        meter.charge(2)
    assert meter.spent == {"a": 2}
    meter.over = lambda: True
    with pytest.raises(Spent):
        meter.charge(1)


def test_rows_are_computed_again_only_where_they_bend_and_matter() -> None:
    def bent(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return torch.stack([theta[0] - v[0] - 1, theta.square().sum() - 1])

    losses = losses_of(quadratic(inner_constraints=bent))

    def rows(theta: Tensor, wanted: list[bool]) -> Any:
        before = losses.oracle.counts["rows"]
        found = losses.rows(v, theta, losses.constraints(v, theta), np.array(wanted))
        return losses.oracle.counts["rows"] - before, found[:, 2:].tolist()

    v = vector(0.0, 0.0)
    assert rows(vector(1.0, 0.5), [False, False]) == (2, [[1, 0], [2, 1]])
    assert rows(vector(2.0, 1.0), [True, False]) == (0, [[1, 0], [2, 1]])
    assert rows(vector(2.0, 1.0), [True, True]) == (1, [[1, 0], [4, 2]])


def test_values_beside_a_gradient_are_free() -> None:
    losses = losses_of(quadratic(inner_constraints=lambda v, theta, b: theta - 1))
    losses.weighted(0.0, 1.0, vector(0.0, 0.0), vector(0.0, 0.0))
    before = losses.oracle.counts["constraints"]
    losses.weighted(0.0, 1.0, vector(0.0, 0.0), vector(0.0, 0.0))
    assert losses.oracle.counts["constraints"] == before
    losses.constraints(vector(0.0, 0.0), vector(0.0, 0.0))
    assert losses.oracle.counts["constraints"] == before + 1


def _loss(v: Any, theta: Any, batch: Any) -> Tensor:
    value: Tensor = (theta * v.sum()).sum()
    return value


def test_what_needs_batches_or_draws_random_numbers_is_refused() -> None:
    table = Problem(_loss, _loss, PerSample(4), torch.ones(2))
    with pytest.raises(UnsupportedError, match="PerSample"):
        check_problem(table)
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))

    def noisy(v: Any, net: Any, batch: Any) -> Tensor:
        value: Tensor = net(torch.ones(1, 2)).sum() * v.sum()
        return value

    with pytest.raises(UnsupportedError, match="random numbers"):
        check_problem(Problem(noisy, noisy, torch.ones(1), net))
    check_problem(Problem(noisy, noisy, torch.ones(1), net.eval()))


def test_losses_that_are_not_finite_at_the_start_are_refused() -> None:
    def log(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return (v.log() + theta).sum()

    with pytest.raises(ProblemError, match="NaN or infinite at the start"):
        check_problem(Problem(log, log, torch.zeros(1), torch.zeros(1)))


def test_dtypes_in_which_values_cannot_be_told_apart_are_refused() -> None:
    problem = Problem(_loss, _loss, torch.ones(2), torch.ones(2, dtype=torch.bfloat16))
    with pytest.raises(UnsupportedError, match="float32 or float64"):
        check_problem(problem)


def test_sharded_variables_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bome.nested.losses.is_sharded", lambda leaf: leaf.dim() == 2)
    problem = Problem(_loss, _loss, torch.ones(2), torch.ones(2, 2))
    with pytest.raises(UnsupportedError, match="theta is sharded"):
        check_problem(problem)
