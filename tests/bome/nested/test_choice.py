"""The choice: a point that only looks good is found out."""

import pytest
import torch

from bome.nested.choice import choose, exact
from bome.nested.survey import Dice, Extent
from bome.nested.value import Point, Start, Units
from tests.support.nested import two_wells, value_of, vector

EXTENT = Extent(vector(0.9), vector(0.0), 2.0, True)


def _point(f: float, v: float, theta: float) -> Point:
    return Point(f, 0.0, 1.0, vector(v), vector(theta), 0.1)


def test_a_theta_in_a_higher_well_does_not_win() -> None:
    """At v = −0.5 the lower well is at θ > 0: the first point claims q = 0 there with θ = −1, and a better f."""
    value = value_of(two_wells(), Units(reach=2.0))
    false, true = _point(0.0, -0.5, -1.0), _point(0.01 - 1.03, 0.6, -1.017)
    order = choose(value, [false._replace(f=-1.5), true], 1e3, EXTENT, Dice(0))
    assert float(order[0].v) == 0.6
    assert order[1].q > 0.2


def test_the_budget_may_end_before_the_best_is_confirmed() -> None:
    value = value_of(two_wells(), Units(reach=2.0))
    value.losses.meter.limit = 3
    order = choose(value, [_point(2.0, 0.1, -1.0), _point(1.0, 0.2, -1.0)], 10.0, EXTENT, Dice(0))
    assert [point.f for point in order] == [1, 2]


def test_f_of_the_best_is_exact_however_small_its_sigma_was() -> None:
    """θ of f + 2 g at v = 0.6, where θ*(v) is −1.0178 and F(v) = 0.01 − 1.0178 by brute force."""
    value = value_of(two_wells(), Units(reach=2.0))
    (y,) = value.upper(vector(0.6), [Start(vector(-1.0))], 2.0)
    assert y.sum.f < -1.05
    thetas = torch.linspace(-2, 0, 2_000_001, dtype=torch.float64)
    theta = float(thetas[((thetas**2 - 1) ** 2 + 0.15 * thetas).argmin()])
    point = _point(y.sum.f, 0.6, 0.0)._replace(theta=y.start.theta)
    best = exact(value, choose(value, [point], 1e5, EXTENT, Dice(0))[0], 1e5)
    assert float(best.theta) == pytest.approx(theta, abs=1e-5)
    assert best.f == pytest.approx(0.01 + theta, abs=1e-5)


def test_points_that_two_runs_have_in_common_count_as_one() -> None:
    value = value_of(two_wells(), Units(reach=2.0))
    point = _point(0.01 - 1.0178, 0.6, -1.0178)
    assert (
        len(choose(value, [point, _point(1.0, 0.2, -1.0), point._replace(v=point.v.clone())], 1e3, EXTENT, Dice(0)))
        == 2
    )
