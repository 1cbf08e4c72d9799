"""Problems with curved constraints: values and constraints by hand."""

import pytest

from bome.tasks.bolib.curved import CURVED
from bome.tasks.bolib.record import point
from bome.tasks.bolib.search import inner_minimum

BY_NAME = {record.name: record for record in CURVED}


@pytest.mark.parametrize(
    ("name", "x", "y", "f", "g"),
    [
        ("AllendeStill2013", (1, 2), (3, 4), 1 + 25, 25 - 6 - 16),
        ("Bard1988Ex3", (1, 2), (3, 4), -1 - 6 - 12 + 16, 2 + 9 - 20),
        ("Colson2002BIPA5", (1,), (0, 2), 1 + 1 + 4, 2 + 1 + 8 - 12),
        ("Dempe1992b", (1.5,), (2,), 40, 1),
        ("DempeDutta2012Ex31", (1, 2), (3, 4), -4, 34),
        ("FloudasZlobec1998", (2,), (3, 4), 28, -4),
        ("LuDebSinha2016f", (50, 3), (3.5,), -3, 25),
        ("MitsosBarton2006Ex322", (0,), (1,), 1.36, 1 + 2 / 15 - 0.4),
        ("Outrata1990Ex2d", (1,), (1, 2), 4, 2.5 - 4.333 - 2),
        ("Outrata1993Ex32", (1,), (1, 2), 4, 0.6 + 2.2 - 4.333 - 2),
        ("SinhaMaloDeb2014TP3", (1, 2), (3, 4), -1 - 12 - 12 + 16, 2 + 9 - 20),
        ("SinhaMaloDeb2014TP7", (1, 2), (3, 4), -24 / 12, 24 / 12),
        ("Zlobec2001a", (2,), (3, 4), -1.5, -7),
    ],
)
def test_losses_have_the_values_computed_by_hand(
    name: str, x: tuple[float, ...], y: tuple[float, ...], f: float, g: float
) -> None:
    record = BY_NAME[name]
    assert float(record.f(point(x), point(y))) == pytest.approx(f, rel=1e-12, abs=1e-12)
    assert float(record.g(point(x), point(y))) == pytest.approx(g, rel=1e-12, abs=1e-12)


def test_constraints_have_the_values_computed_by_hand() -> None:
    x, y = point((1, 2)), point((3, 4))
    bent, disks = BY_NAME["Bard1988Ex3"].h, BY_NAME["DempeDutta2012Ex31"].h
    assert bent is not None
    assert disks is not None
    assert [float(c) for c in bent(x, y)] == [-1 + 2 - 4 + 6 - 4 - 3, -2 - 9 + 16 + 4, -3, -4]
    assert [float(c) for c in disks(x, y)] == [4 + 4 - 1, 25 + 1 - 1]
    moving = BY_NAME["Outrata1990Ex2d"].h
    assert moving is not None
    assert [float(c) for c in moving(point((1,)), point((3, 4)))] == pytest.approx(
        [-0.233 * 3 + 4 - 1, 3 - 0.433 * 4 - 2, -3, -4]
    )


def test_two_disks_that_touch_leave_one_point() -> None:
    """DempeDutta2012Ex31 at x = (1, 1): the disks around (1, 2) and (−1, 2) have only y = (0, 2) in common."""
    found = inner_minimum(BY_NAME["DempeDutta2012Ex31"], point((1, 1)))
    assert found.value == pytest.approx(9, abs=1e-2)


def test_a_ratio_is_smallest_at_a_corner() -> None:
    """SinhaMaloDeb2014TP7 at x = (s, s): 2s² / (1 + s²) at y = (0, s), less than in the three other corners."""
    s = 50**0.5
    found = inner_minimum(BY_NAME["SinhaMaloDeb2014TP7"], point((s, s)))
    assert found.value == pytest.approx(100 / 51)
