"""Polynomials and portfolios: values and solutions by hand."""

import math

import pytest

from bome.tasks.bolib.polynomials import POLYNOMIALS
from bome.tasks.bolib.record import point

BY_NAME = {record.name: record for record in POLYNOMIALS}


@pytest.mark.parametrize(
    ("name", "x", "y", "f", "g"),
    [
        ("KleniatiAdjiman2014Ex4", (1, 2, 3, 1, 2), (1, 2, 10, 1, 2), -19 - 110, 1 + 12 + 1 + 6 * 5),
        ("MitsosBarton2006Ex325", (1, 2), (3, 4, 5), 3 + 18 - 10, 9 + 40),
        ("MitsosBarton2006Ex326", (1, 2), (3, 4, 2), 3 + 32 + 16, 9 + 32 - 4),
        ("NieWangYe2017Ex34", (2,), (3, 4), 9, 14),
        ("NieWangYe2017Ex52", (1, 2), (3, 4, 5), 3 + 8 + 120, 9 + 80 - 75),
        ("NieWangYe2017Ex54", (1, 2, 3, 4), (1, 2, 3, 4), 1 + 4 + 27 + 64, 1 - 6 - 49),
        ("NieWangYe2017Ex57", (1, 2), (2, 3, 4), 1 + 18 - 20, 2 * (24 + 9 - 64)),
        ("NieWangYe2017Ex58", (1, 2, 3, 4), (1, 2, 10, 4), 170, 1 + 4 + 1 + 2 - 40),
        ("NieWangYe2017Ex61", (1, 2), (2, 3), 8 * (1 - 6) - 12 + 24, 18 - 27 - 4),
    ],
)
def test_losses_have_the_values_computed_by_hand(
    name: str, x: tuple[float, ...], y: tuple[float, ...], f: float, g: float
) -> None:
    record = BY_NAME[name]
    assert float(record.f(point(x), point(y))) == pytest.approx(f, rel=1e-12)
    assert float(record.g(point(x), point(y))) == pytest.approx(g, rel=1e-12)


@pytest.mark.parametrize("name", ["KleniatiAdjiman2014Ex4", "MitsosBarton2006Ex327", "MitsosBarton2006Ex328"])
def test_no_value_is_beyond_what_the_boxes_allow(name: str) -> None:
    """All entries are within ±1, and the inner problem wants y₁ = y₃ = −1: f is within 2 and 10 in size."""
    record = BY_NAME[name]
    assert abs(record.optimum) == (2 if name.endswith("327") else 10)
    assert record.solution[1][0] == record.solution[1][2] == -1


def test_of_a_problem_with_many_cases_the_value_is_that_of_the_best() -> None:
    """MitsosBarton2006Ex326: x = (−1, −1), y₁ = y₂² = 1, and y₃ as low as ‖y‖² ≤ 2.5 allows."""
    assert BY_NAME["MitsosBarton2006Ex326"].optimum == pytest.approx(-2 - math.sqrt(0.5) ** 3, abs=1e-6)


def test_the_worst_returns_are_on_an_ellipsoid() -> None:
    """With a tenth in each share the worst of the returns is 1.15, where each is 1.15."""
    for name in ("RobustPortfolioP1", "RobustPortfolioP2"):
        record = BY_NAME[name]
        x, y = map(point, record.solution)
        assert record.h is not None
        assert float(record.h(x, y)[0]) == pytest.approx(0, abs=1e-9)
        radius = 1.5 * math.sqrt(sum((0.1**2) * (i + 1) * 11 / 18000 for i in range(10)))
        mean = sum(0.1 * (1.155 + 0.005 * i) for i in range(10))
        assert mean - radius == pytest.approx(1.15)
