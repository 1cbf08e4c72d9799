"""Problems of BOLIB in which y lives in a polyhedron."""

import torch
from torch import Tensor

from bome.projections import box, polyhedron
from bome.tasks.bolib.record import Formula, Record, point

OUTRATA = "Outrata (1990): On the numerical solution of a class of Stackelberg problems, example "
FRANKE = "Franke, Mehlitz, Pilecka (2018): Optimality conditions for the simple convex bilevel problem, example "
DEMPE_FRANKE = "Dempe, Franke ({}): On the solution of convex bilevel optimization problems, example {}"

TRIANGLE = polyhedron(((1, 1), (-1, 1), (-1, 0), (0, -1)), (2, 0, 0, 0))
"""Below the line y₁ + y₂ = 2 and below the diagonal."""

WEDGE = polyhedron(((-2, 1), (1, 0), (0, 1), (0, -1)), (0, 2, 2, 0))
"""Between 0 and 2, and below y₂ = 2y₁."""

KITE = polyhedron(((-0.333, 1), (1, -0.333), (-1, 0), (0, -1)), (2, 2, 0, 0))
"""Where two firms can produce."""


def distance(y: Tensor) -> Tensor:
    """½‖y − (3, 4)‖²."""
    return (y[0] - 3) ** 2 / 2 + (y[1] - 4) ** 2 / 2


def _priced(c: float) -> Formula:
    """½‖y − (3, 4)‖² + c‖x‖² − 12.5."""
    return lambda x, y: distance(y) + c * (x**2).sum(0) - 12.5


POLYHEDRA = (
    Record(
        name="DempeLohse2011Ex31a",
        source="Dempe, Lohse (2011): example 3.1a",
        kind="polyhedron",
        f=lambda x, y: (x[0] - 0.5) ** 2 + (x[1] - 0.5) ** 2 - 3 * y[0] - 3 * y[1],
        g=lambda x, y: x[0] * y[0] + x[1] * y[1],
        y_set=TRIANGLE,
        start=((1, 1), (1, 1)),
        optimum=-5.75,
        solution=((0, 0.5), (2, 0)),
        correction="BOLIB prints −5.5; the true value is −5.75, since at x = (0, ½) every (y₁, 0) is an inner solution",
    ),
    Record(
        name="DempeFranke2011Ex41",
        source=DEMPE_FRANKE.format(2011, "4.1"),
        kind="polyhedron",
        f=lambda x, y: x[0] + y[0] ** 2 + y[1] ** 2,
        g=lambda x, y: x[0] * y[0] + x[1] * y[1],
        x_set=box(point((-1, -1)), point((1, -1))),
        y_set=WEDGE,
        start=((1, 1), (1, 1)),
        optimum=5.0,
        solution=((0, -1), (1, 2)),
    ),
    Record(
        name="DempeFranke2014Ex38",
        source=DEMPE_FRANKE.format(2014, "3.8"),
        kind="polyhedron",
        f=lambda x, y: 2 * x[0] + x[1] + 2 * y[0] - y[1],
        g=lambda x, y: x[0] * y[0] + x[1] * y[1],
        x_set=box(point((-1, -1)), point((1, -0.75))),
        y_set=WEDGE,
        start=((1, 1), (1, 1)),
        optimum=-1.0,
        solution=((-1, -1), (2, 2)),
    ),
    Record(
        name="Outrata1990Ex1b",
        source=OUTRATA + "1b",
        kind="polyhedron",
        f=_priced(1.0),
        g=lambda x, y: y[0] ** 2 / 2 - 2 * y[0] * y[1] + 5 * y[1] ** 2 / 2 - x[0] * y[0] - x[1] * y[1],
        y_set=KITE,
        start=((0, 0), (3, 3)),
        optimum=-7.5784628,
        solution=((0.2790376, 0.4742885), (2.3437793, 1.0323704)),
        status="best known",
    ),
    Record(
        name="Outrata1990Ex1d",
        source=OUTRATA + "1d",
        kind="polyhedron",
        f=_priced(0.1),
        g=lambda x, y: y[0] ** 2 / 2 + 3 * y[0] * y[1] + 5 * y[1] ** 2 - x[0] * y[0] - x[1] * y[1],
        y_set=KITE,
        start=((6, -3), (3, 3)),
        optimum=-3.6,
        solution=((2, 0), (2, 0)),
        status="best known",
    ),
    Record(
        name="Outrata1990Ex2a",
        source=OUTRATA + "2a",
        kind="polyhedron",
        f=lambda x, y: distance(y),
        g=lambda x, y: y[0] ** 2 / 2 + y[1] ** 2 / 2 - (3 + 1.333 * x[0]) * y[0] - x[0] * y[1],
        x_set=box(0, torch.inf),
        y_set=KITE,
        start=((1,), (1, 1)),
        optimum=0.5015015,
        solution=((5.511910,), (2.9985008, 2.9985008)),
        status="best known",
    ),
    Record(
        name="Outrata1990Ex2c",
        source=OUTRATA + "2c",
        kind="polyhedron",
        f=lambda x, y: distance(y),
        g=lambda x, y: (
            (1 + x[0]) * y[0] ** 2 / 2 + (1 + 0.1 * x[0]) * y[1] ** 2 / 2 - (3 + 1.333 * x[0]) * y[0] - x[0] * y[1]
        ),
        x_set=box(0, torch.inf),
        y_set=KITE,
        start=((0,), (0, 0)),
        optimum=1.8604533,
        solution=((3.4561423,), (1.7070939, 2.5684623)),
        status="best known",
    ),
    Record(
        name="DempeLohse2011Ex31b",
        source="Dempe, Lohse (2011): example 3.1b",
        kind="polyhedron",
        f=lambda x, y: (x[0] - 0.5) ** 2 + (x[1] - 0.5) ** 2 + x[2] ** 2 - 3 * y[0] - 3 * y[1] - 6 * y[2],
        g=lambda x, y: x[0] * y[0] + x[1] * y[1] + x[2] * y[2],
        y_set=polyhedron(((1, 1, 1), (-1, 1, 0), (-1, 0, 0), (0, -1, 0), (0, 0, -1)), (2, 0, 0, 0, 0)),
        start=((1, 1, 1), (1, 1, 1)),
        optimum=-12.0,
        solution=((0.5, 0.5, 0), (0, 0, 2)),
    ),
    Record(
        name="DempeFranke2011Ex42",
        source=DEMPE_FRANKE.format(2011, "4.2"),
        kind="polyhedron",
        f=lambda x, y: x[0] + (y[0] - 1) ** 2 + y[1] ** 2,
        g=lambda x, y: x[0] * y[0] + x[1] * y[1],
        x_set=box(point((-1, -1)), point((1, -1))),
        y_set=polyhedron(((-1, 1), (1, 1), (0, 1)), (1, 3.5, 2)),
        start=((1, 1), (1, 1)),
        optimum=2.125,
        solution=((-1, -1), (2.25, 1.25)),
    ),
    Record(
        name="FrankeEtal2018Ex511",
        source=FRANKE + "5.1.1",
        kind="polyhedron",
        f=lambda x, y: (y[0] - 2) ** 2 / 2 + y[1] ** 2 / 2 + (y[2] - 2) ** 2 / 2 + x[0] ** 2,
        g=lambda x, y: y[0] + y[1] + y[2],
        y_set=polyhedron(((-1, -1, 0), (-1, 1, 0), (-1, 0, 0), (0, 0, -1)), (0, 0, 0, 0)),
        start=((1,), (1, 1, 1)),
        optimum=3.0,
        solution=((0,), (1, -1, 0)),
    ),
    Record(
        name="Outrata1990Ex1a",
        source=OUTRATA + "1a",
        kind="polyhedron",
        f=_priced(0.1),
        g=lambda x, y: y[0] ** 2 / 2 - 2 * y[0] * y[1] + 5 * y[1] ** 2 / 2 - x[0] * y[0] - x[1] * y[1],
        y_set=KITE,
        start=((0, 0), (3, 3)),
        optimum=-8.9172030,
        solution=((1.0315665, 3.0977972), (2.5970479, 1.7929367)),
        status="best known",
    ),
    Record(
        name="Outrata1990Ex1c",
        source=OUTRATA + "1c",
        kind="polyhedron",
        f=_priced(0.0),
        g=lambda x, y: y[0] ** 2 / 2 + 3 * y[0] * y[1] + 5 * y[1] ** 2 - x[0] * y[0] - x[1] * y[1],
        y_set=KITE,
        start=((0, 0), (3, 3)),
        optimum=-11.9984985,
        solution=((11.994003, 38.9805097), (2.9985007, 2.9985007)),
        status="best known",
    ),
    Record(
        name="Outrata1990Ex1e",
        source=OUTRATA + "1e",
        kind="polyhedron",
        f=_priced(0.1),
        g=lambda x, y: (
            y[0] ** 2 / 2 + 3 * y[0] * y[1] + 5 * y[1] ** 2 + (x[0] - 2 * x[1]) * y[0] + 3 * (x[1] - x[0]) * y[1]
        ),
        y_set=KITE,
        start=((6, -3), (3, 3)),
        optimum=-3.92,
        solution=((-0.4, 0.8), (2, 0)),
        status="best known",
        correction="BOLIB prints −3.15; the true value is −3.92, since x = (−0.4, 0.8), y = (2, 0) has it",
    ),
    Record(
        name="Outrata1990Ex2b",
        source=OUTRATA + "2b",
        kind="polyhedron",
        f=lambda x, y: distance(y),
        g=lambda x, y: (1 + x[0]) * y[0] ** 2 / 2 - (3 + 1.333 * x[0]) * y[0] - x[0] * y[1],
        x_set=box(0, torch.inf),
        y_set=KITE,
        start=((5,), (0, 0)),
        optimum=0.5015015,
        solution=((0.0011251,), (2.9985007, 2.9985007)),
        status="best known",
    ),
    Record(
        name="OutrataCervinka2009",
        source="Outrata, Červinka (2009): On the implicit programming approach in a class of MPECs",
        kind="polyhedron",
        f=lambda x, y: -2 * x[0] - x[1] / 2 - y[1],
        g=lambda x, y: (1 + x[0]) * y[0] + (x[1] - 1) * y[1] + y[0] ** 2 / 2 + y[1] ** 2 / 2,
        x_set=box(point((-torch.inf, -torch.inf)), point((0, torch.inf))),
        y_set=polyhedron(((0, 1), (-1, 1), (1, 1)), (0, 0, 0)),
        start=((1, 1), (1, 1)),
        optimum=0.0,
        solution=((0, 0), (0, 0)),
    ),
)
"""Triangles and other polygons."""
