"""Polygons: their corners, and values by hand."""

import pytest
import torch

from bome.projections import Polyhedron
from bome.tasks.bolib.polyhedra import KITE, POLYHEDRA, TRIANGLE, WEDGE
from bome.tasks.bolib.record import point

BY_NAME = {record.name: record for record in POLYHEDRA}


@pytest.mark.parametrize(
    ("polygon", "inside", "outside"),
    [
        (TRIANGLE, [(0, 0), (2, 0), (1, 1)], [(1.1, 1), (-0.1, 0), (0, 0.1), (1, -0.1)]),
        (WEDGE, [(0, 0), (1, 2), (2, 2), (2, 0)], [(0.9, 2), (2.1, 0), (1.5, 2.1), (1, -0.1)]),
        (KITE, [(0, 0), (0, 2), (2, 0)], [(0, 2.1), (2.1, 0), (-0.1, 1), (1, -0.1), (3.1, 3.1)]),
    ],
)
def test_corners_are_inside_and_points_beyond_them_are_not(
    polygon: Polyhedron, inside: list[tuple[float, float]], outside: list[tuple[float, float]]
) -> None:
    assert all(torch.allclose(polygon(point(z)), point(z)) for z in inside)
    assert not any(torch.allclose(polygon(point(z)), point(z)) for z in outside)


@pytest.mark.parametrize(
    ("name", "x", "y", "f", "g"),
    [
        ("DempeLohse2011Ex31a", (1, 2), (1, 1), 0.25 + 2.25 - 6, 3),
        ("DempeFranke2011Ex41", (1, 2), (1, 1), 3, 3),
        ("DempeFranke2014Ex38", (1, 2), (1, 1), 2 + 2 + 2 - 1, 3),
        ("Outrata1990Ex1b", (1, 2), (1, 1), 2 + 4.5 + 5 - 12.5, 0.5 - 2 + 2.5 - 3),
        ("Outrata1990Ex1d", (1, 2), (1, 1), 2 + 4.5 + 0.5 - 12.5, 0.5 + 3 + 5 - 3),
        ("Outrata1990Ex2a", (1,), (1, 2), 2 + 2, 0.5 + 2 - 4.333 - 2),
        ("Outrata1990Ex2c", (1,), (1, 2), 2 + 2, 1 + 2.2 - 4.333 - 2),
    ],
)
def test_losses_have_the_values_computed_by_hand(
    name: str, x: tuple[float, ...], y: tuple[float, ...], f: float, g: float
) -> None:
    record = BY_NAME[name]
    assert float(record.f(point(x), point(y))) == pytest.approx(f, rel=1e-12, abs=1e-12)
    assert float(record.g(point(x), point(y))) == pytest.approx(g, rel=1e-12, abs=1e-12)
