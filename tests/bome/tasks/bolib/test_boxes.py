"""Free problems and boxes: values and solutions by hand."""

import math

import pytest

from bome.tasks.bolib.boxes import BOXES, FREE, SIMPLE
from bome.tasks.bolib.record import point

BY_NAME = {record.name: record for record in (*FREE, *BOXES, *SIMPLE)}


@pytest.mark.parametrize(
    ("name", "x", "y", "f", "g"),
    [
        ("HenrionSurowiec2011", (2,), (3,), 4, -3 * 0.5),
        ("MacalHurter1997", (2,), (3,), 5, 4.5 + 1500 - 300),
        ("FalkLiu1995", (1, 2), (1, 1), 0.25 + 0.25 + 2 - 4.5, 1),
        ("Mirrlees1999", (2,), (1,), 0, -2 * math.exp(-4) - 1),
        ("DeSilva1978", (1, 2), (1, 1), 1 + 2 - 2, 1),
        ("FrankeEtal2018Ex53", (1,), (2, 3), 14, 0),
        ("ShimizuAiyoshi1981Ex2", (20, 5), (10, 5), 100 + 225 - 200 + 100, 100),
        ("SinhaMaloDeb2014TP9", (1,) * 10, (0,) * 10, 0, 1),
        ("SinhaMaloDeb2014TP10", (1,) * 10, (0,) * 10, 0, 1),
    ],
)
def test_losses_have_the_values_computed_by_hand(
    name: str, x: tuple[float, ...], y: tuple[float, ...], f: float, g: float
) -> None:
    record = BY_NAME[name]
    assert float(record.f(point(x), point(y))) == pytest.approx(f, rel=1e-12, abs=1e-12)
    assert float(record.g(point(x), point(y))) == pytest.approx(g, rel=1e-12, abs=1e-12)


def test_macal_and_hurter_are_solved_by_paper_and_pencil() -> None:
    """y = 50x − 500, so that f = (x − 1)² + (50x − 501)²."""
    record = BY_NAME["MacalHurter1997"]
    x = (1 + 50 * 501) / 2501
    assert record.solution[0] == (x,)
    assert record.solution[1] == pytest.approx((50 * x - 500,))
    assert record.optimum == pytest.approx((x - 1) ** 2 + (50 * x - 501) ** 2)


def test_where_x_does_not_occur_it_is_added_to_f_alone() -> None:
    for record in SIMPLE:
        y = point((0.5,) * len(record.start[1]))
        moved = [[float(loss(point((x,)), y)) for x in (0, 2)] for loss in (record.f, record.g)]
        assert [b - a for a, b in moved] == [4, 0]
