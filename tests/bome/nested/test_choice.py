"""The choice: a point that only looks good is found out."""

from bome.nested.choice import choose
from bome.nested.survey import Dice, Extent
from bome.nested.value import Point, Units
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
