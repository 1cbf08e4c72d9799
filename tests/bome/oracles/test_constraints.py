"""Constraints by every oracle: values, rows of the Jacobian and products with it, counted; they leave no trace."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bome import Batches, Problem
from bome.core.microbatches import MicroBatches
from bome.core.trees import Pair
from bome.errors import NonFiniteError, UnsupportedError
from bome.oracles import Oracle
from tests.support.samples import ORACLES, toy

KINDS = pytest.mark.parametrize("kind", ORACLES)


def curved(**options: Any) -> Problem:
    """The toy with h = (v₀θ₀ − 1, θ₁² − v₂), an inner equality θ₀ + θ₁ = 1, and H = ‖v‖² − 2."""
    return toy(
        inner_constraints=lambda v, theta, batch: [v[0] * theta[0] - 1, theta[1] ** 2 - v[2]],
        inner_equalities=lambda v, theta, batch: theta.sum() - 1,
        outer_constraints=lambda v, theta, batch: v.square().sum() - 2,
        **options,
    )


def by_hand(point: Pair) -> tuple[Tensor, Tensor, Tensor]:
    """c, ∂c/∂v and ∂c/∂θ."""
    (v,), (theta,) = point
    c = torch.stack([v[0] * theta[0] - 1, theta[1] ** 2 - v[2], theta.sum() - 1, v @ v - 2])
    zero, one = torch.zeros((), dtype=v.dtype), torch.ones((), dtype=v.dtype)
    in_v = torch.stack([torch.stack([theta[0], zero, zero]), torch.stack([zero, zero, -one]), 0 * v, 2 * v])
    in_theta = torch.stack([torch.stack([v[0], zero]), torch.stack([zero, 2 * theta[1]]), 1 + 0 * theta, 0 * theta])
    return c, in_v, in_theta


@KINDS
def test_values_and_rows_are_those_computed_by_hand(kind: type[Oracle]) -> None:
    oracle = kind(curved())
    c, in_v, in_theta = by_hand(oracle.problem.point)
    found = oracle.constraints(*oracle.problem.point, Batches())
    torch.testing.assert_close(found.values, c)
    torch.testing.assert_close(torch.stack([row.v[0] for row in found.rows]), in_v)
    torch.testing.assert_close(torch.stack([row.theta[0] for row in found.rows]), in_theta)
    assert found.sizes == (2, 1, 1, 0)
    assert not found.values.requires_grad
    assert oracle.counts == {"rows": 4, "constraints": 0}


@KINDS
def test_only_the_rows_and_the_part_wanted_are_computed(kind: type[Oracle]) -> None:
    oracle = kind(curved())
    _, in_v, in_theta = by_hand(oracle.problem.point)
    found = oracle.constraints(*oracle.problem.point, Batches(), rows=[2, 0], level="inner", wrt="theta")
    assert found.values.shape == (3,)
    torch.testing.assert_close(torch.stack([row.theta[0] for row in found.rows]), in_theta[[2, 0]])
    assert all(row.v == () for row in found.rows)
    (row,) = oracle.constraints(*oracle.problem.point, Batches(), rows=[3], wrt="v").rows
    torch.testing.assert_close(row.v[0], in_v[3])
    assert oracle.counts["rows"] == 3


@KINDS
def test_values_alone_count_one_and_nothing_beside_a_gradient(kind: type[Oracle]) -> None:
    oracle = kind(curved())
    point = oracle.problem.point
    oracle.constraints(*point, Batches(), rows=[])
    assert oracle.counts["constraints"] == 1
    g = oracle.inner(*point, None)
    beside = oracle.constraints(*point, Batches(), rows=[], beside=g)
    torch.testing.assert_close(beside.values, by_hand(point)[0])
    assert sum(oracle.counts.values()) == 2


@KINDS
def test_a_product_with_all_rows_takes_its_weights_from_the_values(kind: type[Oracle]) -> None:
    oracle = kind(curved())
    c, in_v, in_theta = by_hand(oracle.problem.point)
    found = oracle.pull_constraints(*oracle.problem.point, Batches(), lambda c: (1 + 3 * c).clamp(min=0))
    weights = (1 + 3 * c).clamp(min=0)
    torch.testing.assert_close(found.value, c)
    torch.testing.assert_close(found.grad.v[0], weights @ in_v)
    torch.testing.assert_close(found.grad.theta[0], weights @ in_theta)
    assert oracle.counts == {"rows": 1}


@KINDS
def test_modules_are_seen_as_themselves_and_left_as_they_are(kind: type[Oracle]) -> None:
    """With running statistics and dropout, in constraints on their outputs."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Dropout(0.5)).double()
    x = torch.randn(5, 3, dtype=torch.float64)
    problem = Problem(
        lambda v, net, batch: net(x).square().mean(),
        lambda v, net, batch: (net(x).mean() - v).square(),
        torch.tensor(1.0, dtype=torch.float64),
        net,
        inner_constraints=lambda v, net, batch: [net[0].weight.square().sum() - v, net(x).mean()],
    )
    weight: Tensor = next(net.parameters()).detach()
    oracle = kind(problem)
    before = {name: x.clone() for name, x in net.state_dict().items()}
    random = torch.get_rng_state()
    found = oracle.constraints(*problem.point, Batches(), rows=[0])
    torch.testing.assert_close(found.rows[0].theta[0], 2 * weight)
    torch.testing.assert_close(found.rows[0].theta[1], torch.zeros(2, dtype=torch.float64))
    torch.testing.assert_close(found.rows[0].v[0], torch.tensor(-1.0, dtype=torch.float64))
    assert all(torch.equal(before[name], x) for name, x in net.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random)
    assert all(p.grad is None for p in net.parameters())


@KINDS
def test_where_there_are_none_of_a_level_the_vector_is_empty(kind: type[Oracle]) -> None:
    oracle = kind(toy(outer_constraints=lambda v, theta, batch: v))
    found = oracle.constraints(*oracle.problem.point, Batches(), level="inner")
    assert (found.values.numel(), found.rows) == (0, ())
    assert sum(oracle.counts.values()) == 0
    pulled = oracle.pull_constraints(*oracle.problem.point, Batches(), torch.exp, level="inner")
    assert not pulled.grad.v[0].any()


@KINDS
def test_micro_batches_are_refused(kind: type[Oracle]) -> None:
    oracle = kind(curved())
    with pytest.raises(UnsupportedError, match="constraints see one batch as a whole"):
        oracle.constraints(*oracle.problem.point, Batches(inner=(MicroBatches([None, None]),)))


@KINDS
def test_a_failure_is_named_while_the_oracle_watches(kind: type[Oracle]) -> None:
    oracle = kind(toy(inner_constraints=lambda v, theta, batch: (theta - 5).log()))
    oracle.watching = True
    with pytest.raises(NonFiniteError, match="the constraints at"):
        oracle.constraints(*oracle.problem.point, Batches())
