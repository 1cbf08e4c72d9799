"""Problems of two numbers in intervals: values and solutions by hand."""

import math

import pytest

from bome.tasks.bolib.intervals import INTERVALS, quartic, wavy
from bome.tasks.bolib.record import point

BY_NAME = {record.name: record for record in INTERVALS}


@pytest.mark.parametrize(
    ("name", "x", "y", "f", "g"),
    [
        ("DempeEtal2012", 2, 3, 2, 6),
        ("HendersonQuandt1958", 2, 4, 2 * (1 + 2 - 95), 4 * (1 + 4 - 100)),
        ("LucchettiEtal1987", 2, 3, -0.5 + 6, 3),
        ("MitsosBarton2006Ex310", 2, -0.5, -0.5, 2 * (1 - 0.25 - 2 + 0.75 + 0.5)),
        ("MitsosBarton2006Ex311", 2, -0.5, -0.5, 2 * (1 - 0.25 - 2 + 0.75 + 0.5)),
        ("MitsosBarton2006Ex312", 0.5, 1, 10, -0.5 + 0.5),
        ("MitsosBarton2006Ex313", 0.5, 1, -0.5, 0.25 - 0.125),
        ("MitsosBarton2006Ex314", 0.5, 1, 1.0625, 1 / 3 - 0.5),
        ("MitsosBarton2006Ex316", 0.5, 1, 2, -0.25 - 0.25),
        ("MitsosBarton2006Ex318", 0.5, 1, 0.75, 0),
        ("MitsosBarton2006Ex319", 0.5, 1, 0.5 - 1 + 0.5, 0),
        ("MitsosBarton2006Ex320", 0.5, 1, 1.0625, 1 / 3 - 0.25),
        ("MitsosBarton2006Ex321", 0, 1, 1.36, 1 + 2 / 15 - 0.4),
        ("MitsosBarton2006Ex324", 1, 2, -1, (0.81 - 1) ** 2),
        ("MorganPatrone2006b", 0.5, 1, -1.5, 0.25),
        ("PaulaviciusAdjiman2017a", 0.5, 1, 1.25, 0),
        ("Yezza1996Ex31", 1, 2, -2 + 2 + 1, 6 - 2 - 2),
    ],
)
def test_losses_have_the_values_computed_by_hand(name: str, x: float, y: float, f: float, g: float) -> None:
    record = BY_NAME[name]
    assert float(record.f(point((x,)), point((y,)))) == pytest.approx(f, rel=1e-12, abs=1e-12)
    assert float(record.g(point((x,)), point((y,)))) == pytest.approx(g, rel=1e-12, abs=1e-12)


def test_a_firm_that_leads_produces_more_than_one_that_follows() -> None:
    """HendersonQuandt1958: y = (100 − x/2)/2, and f'(x) = 0 there."""
    record = BY_NAME["HendersonQuandt1958"]
    x, y = 280 / 3, 80 / 3
    assert y == pytest.approx((100 - x / 2) / 2)
    assert record.solution == ((x,), (y,))
    assert record.optimum == pytest.approx(x * (x / 2 + y / 2 - 95))


def test_the_middle_of_the_leaders_interval_leaves_the_follower_free() -> None:
    record = BY_NAME["MorganPatrone2006b"]
    assert [float(record.g(point((x,)), point((1,)))) for x in (-0.5, -0.25, 0, 0.25)] == [-0.25, 0, 0, 0]


def test_of_two_minima_of_a_quartic_the_lower_one_is_at_a_half() -> None:
    assert float(quartic(point((0.5,)))) < float(quartic(point((-0.5,))))
    x = point((0.25,))
    assert math.isclose(float(wavy(x, point((0,)))), 0)


def test_the_best_of_two_branches_is_stationary() -> None:
    """MitsosBarton2006Ex324: y = 1 + x/10 + √((1 + x)/2), and f = x² − y."""
    ((x,), (y,)), record = BY_NAME["MitsosBarton2006Ex324"].solution, BY_NAME["MitsosBarton2006Ex324"]
    assert y == pytest.approx(1 + x / 10 + ((1 + x) / 2) ** 0.5, abs=1e-6)
    assert 2 * x - 0.1 - 0.25 / ((1 + x) / 2) ** 0.5 == pytest.approx(0, abs=1e-6)
    assert record.optimum == pytest.approx(x**2 - y, abs=1e-6)
