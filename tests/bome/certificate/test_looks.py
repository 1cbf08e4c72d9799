"""Looks: fixed functions, a limit, and batches to judge on that were not descended on."""

import math

import pytest
import torch
from torch import nn

from bome import AutogradOracle, Batches, Problem, box
from bome.certificate.looks import DOUBT, Looks, Meter, SpentError, halves, mean, near, sizes
from bome.core.trees import Pair

F64 = torch.float64


def _looks(inner: tuple[float, ...] = (1.0,), allowed: float = math.inf) -> Looks:
    """f = b θ², g = (θ − v − b)²."""
    problem = Problem(
        lambda v, t, b: (b * t.square()).sum(), lambda v, t, b: (t - v - b).square().sum(),
        torch.zeros(1, dtype=F64), torch.ones(1, dtype=F64), project_theta=box(-2, 2),
    )  # fmt: skip
    return Looks(AutogradOracle(problem), Batches(inner=inner, outer=inner), Meter(allowed))


def _point(theta: float) -> Pair:
    return Pair((torch.zeros(1, dtype=F64),), (torch.tensor([theta], dtype=F64),))


def test_values_are_means_over_the_batches_and_each_of_them_counts() -> None:
    looks = _looks((1.0, 3.0))
    assert float(looks.g(*_point(2.0)).value) == 0.5 * (1 + 1)
    assert float(looks.f(*_point(2.0)).value) == 2 * 4
    assert looks.meter.counts == {"g": 2, "f": 2}
    assert looks.meter.spent == 4


def test_a_sample_is_halved_and_the_halves_tell_how_far_their_mean_may_be_wrong() -> None:
    one, other = halves(Batches(inner=(1, 2, 3, 4), outer=(5, 6, 7, 8)))
    assert (one, other) == (Batches(inner=(1, 2), outer=(5, 6)), Batches(inner=(3, 4), outer=(7, 8)))
    assert halves(Batches(inner=(1,), outer=(5,))) == (Batches(inner=(1,), outer=(5,)),)
    assert mean([2.0, 3.0]) == (2.5, DOUBT)
    assert mean([2.0]) == (2.0, 0.0)


def test_no_look_is_made_beyond_the_limit() -> None:
    looks = _looks((1.0, 2.0), allowed=3)
    looks.g(*_point(0.0))
    with pytest.raises(SpentError):
        looks.f(*_point(0.0))
    assert looks.meter.counts == {"g": 2}


def test_every_look_sees_the_same_random_numbers() -> None:
    net = nn.Sequential(nn.Linear(3, 50), nn.Dropout(0.5), nn.Linear(50, 1)).double()
    x = torch.ones(2, 3, dtype=F64)
    problem = Problem(
        lambda v, n, b: n(x).sum() * v, lambda v, n, b: n(x).square().mean(), torch.tensor(1.0, dtype=F64), net
    )
    looks = Looks(AutogradOracle(problem), Batches(), Meter())
    first, second = (float(looks.g(*problem.point).value) for _ in range(2))
    assert first == second


def test_random_points_are_as_far_as_the_size_of_each_leaf_says() -> None:
    x = (torch.full((2000,), 3.0, dtype=F64), torch.zeros(2000, dtype=F64))
    assert sizes(x, 0.5) == [3.0, 0.5]
    drawn = near(x, 0.1, 0.5, torch.Generator().manual_seed(0))
    assert float((drawn[0] - x[0]).std()) == pytest.approx(0.3, rel=0.05)
    assert float(drawn[1].std()) == pytest.approx(0.05, rel=0.05)
