"""Nonlinear problems with constraints: values by hand."""

import pytest

from bome.tasks.bolib.nonlinear import NONLINEAR, QUADRATIC
from bome.tasks.bolib.record import point

BY_NAME = {record.name: record for record in (*QUADRATIC, *NONLINEAR)}


@pytest.mark.parametrize(
    ("name", "x", "y", "f", "g"),
    [
        ("AiyoshiShimizu1984Ex2", (1, 2), (3, 4), 2 + 4 - 9 - 12 - 60, 22**2 + 22**2),
        ("Bard1988Ex2", (0, 0, 0, 0), (1, 2, 3, 4), 4 * -196 + 6 * -154, 9 + 121 + 32**2 + 4),
        ("Bard1991Ex1", (2,), (3, 4), 6, 14),
        ("Colson2002BIPA3", (1,), (1,), 4**4 + 3**4, 1 + 1 + 2 + 1 + 2 + 6),
        ("Colson2002BIPA5", (1,), (0, 2), 1 + 1 + 4, 2 + 1 + 8 - 12),
        ("NetworkDesignP2", (0,) * 5, (1,) * 5, 51 + 10 + 11 + 10 + 51, 50.5 + 5 + 10.5 + 5 + 50.5),
        ("Outrata1993Ex32", (1,), (1, 2), 4, 0.6 + 2.2 - 4.333 - 2),
        ("SinhaMaloDeb2014TP6", (3,), (1, 2), 4 - 6 + 2, 4 + 9 + 3),
        ("YeZhu2010Ex43", (1.5,), (2,), 1, 2),
    ],
)
def test_losses_have_the_values_computed_by_hand(
    name: str, x: tuple[float, ...], y: tuple[float, ...], f: float, g: float
) -> None:
    record = BY_NAME[name]
    assert float(record.f(point(x), point(y))) == pytest.approx(f, rel=1e-12, abs=1e-12)
    assert float(record.g(point(x), point(y))) == pytest.approx(g, rel=1e-12, abs=1e-12)


def test_the_network_carries_what_enters_it() -> None:
    """At the solution all six units take the middle way."""
    record = BY_NAME["NetworkDesignP2"]
    x, y = map(point, record.solution)
    assert record.violation(x, y) <= 1e-12
    assert record.violation(x, y + point((0, 1, 0, 0, 0))) == 1
