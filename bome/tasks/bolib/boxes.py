"""Problems of BOLIB without constraints, with a box for y, and without x."""

import math

import torch
from torch import Tensor, cos, exp

from bome.projections import box, polyhedron
from bome.tasks.bolib.intervals import MITSOS, quartic
from bome.tasks.bolib.record import Record

LAMPARIELLO = "Lampariello, Sagratella (2017): A bridge between bilevel programs and Nash games, example "


def _product_of_cosines(x: Tensor, y: Tensor) -> Tensor:
    """1 + Σ (x_i y_i)² / 4000 − Π cos(x_i y_i / √i)."""
    z = (x * y).movedim(0, -1)
    roots = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype).sqrt()
    return 1 + (z**2).sum(-1) / 4000 - cos(z / roots).prod(-1)


FREE = (
    Record(
        name="HenrionSurowiec2011",
        source="Henrion, Surowiec (2011): On calmness conditions in convex bilevel programming",
        kind="free",
        f=lambda x, y: x[0] ** 2,
        g=lambda x, y: -y[0] * (x[0] - y[0] / 2),
        start=((1,), (1,)),
        optimum=0.0,
        solution=((0,), (0,)),
    ),
    Record(
        name="MacalHurter1997",
        source="Macal, Hurter (1997): Dependence of bilevel mathematical programs on irrelevant constraints",
        kind="free",
        f=lambda x, y: (x[0] - 1) ** 2 + (y[0] - 1) ** 2,
        g=lambda x, y: 0.5 * y[0] ** 2 + 500 * y[0] - 50 * x[0] * y[0],
        start=((1,), (1,)),
        optimum=81.3278689,
        solution=((25051 / 2501,), (2050 / 2501,)),
    ),
    Record(
        name="LamparielloSagratella2017Ex32",
        source=LAMPARIELLO + "3.2",
        kind="free",
        f=lambda x, y: x[0] ** 2 + y[0] ** 2,
        g=lambda x, y: (x[0] + y[0] - 1) ** 2,
        start=((1,), (1,)),
        optimum=0.5,
        solution=((0.5,), (0.5,)),
    ),
)
"""Both variables are free."""

BOXES = (
    Record(
        name="DeSilva1978",
        source="De Silva (1978): Sensitivity formulas for nonlinear factorable programming",
        kind="box",
        f=lambda x, y: (x[0] - 1) ** 2 + (x[1] - 1) ** 2 + y[0] ** 2 + y[1] ** 2 - 2,
        g=lambda x, y: (x[0] - y[0]) ** 2 + (x[1] - y[1]) ** 2,
        y_set=box(0.5, 1.5),
        start=((0, 0), (1, 1)),
        optimum=-1.0,
        solution=((0.5, 0.5), (0.5, 0.5)),
    ),
    Record(
        name="FalkLiu1995",
        source="Falk, Liu (1995): On bilevel programming, part I: general nonlinear cases",
        kind="box",
        f=lambda x, y: (x[0] - 1.5) ** 2 + (x[1] - 1.5) ** 2 + y[0] ** 2 + y[1] ** 2 - 4.5,
        g=lambda x, y: (x[0] - y[0]) ** 2 + (x[1] - y[1]) ** 2,
        y_set=box(0.5, 1.5),
        start=((0, 0), (1, 1)),
        optimum=-2.25,
        solution=((0.75, 0.75), (0.75, 0.75)),
        correction="BOLIB prints −2.1962; the true value is −2.25, since x = y = (¾, ¾) is feasible and has it",
    ),
    Record(
        name="HatzEtal2013",
        source="Hatz, Leyffer, Schlöder, Bock (2013): Regularizing bilevel nonlinear programs by lifting",
        kind="box",
        f=lambda x, y: -x[0] + 2 * y[0] + y[1],
        g=lambda x, y: (x[0] - y[0]) ** 2 + y[1] ** 2,
        y_set=box(0, torch.inf),
        start=((1,), (1, 1)),
        optimum=0.0,
        solution=((0,), (0, 0)),
    ),
    Record(
        name="Mirrlees1999",
        source="Mirrlees (1999): The theory of moral hazard and unobservable behaviour, part I",
        kind="box",
        f=lambda x, y: (x[0] - 2) ** 2 + (y[0] - 1) ** 2,
        g=lambda x, y: -x[0] * exp(-((y[0] + 1) ** 2)) - exp(-((y[0] - 1) ** 2)),
        y_set=box(-2, 2),
        start=((1,), (1,)),
        optimum=1.0018061,
        solution=((1,), (0.9575040,)),
    ),
    Record(
        name="ShimizuAiyoshi1981Ex2",
        source="Shimizu, Aiyoshi (1981): A new computational method for Stackelberg and min-max problems, example 2",
        kind="box",
        f=lambda x, y: (x[0] - 30) ** 2 + (x[1] - 20) ** 2 - 20 * y[0] + 20 * y[1],
        g=lambda x, y: (x[0] - y[0]) ** 2 + (x[1] - y[1]) ** 2,
        x_set=polyhedron(((-1, -2), (1, 1), (0, 1)), (-30, 25, 15)),
        y_set=box(0, 10),
        start=((1, 1), (1, 1)),
        optimum=225.0,
        solution=((20, 5), (10, 5)),
    ),
    Record(
        name="SinhaMaloDeb2014TP10",
        source="Sinha, Malo, Deb (2014): Test problem construction for single-objective bilevel optimization, 10",
        kind="box",
        f=lambda x, y: ((x - 1) ** 2).sum(0) + (y**2).sum(0),
        g=lambda x, y: exp(_product_of_cosines(x, y)),
        y_set=box(-math.pi, math.pi),
        start=((0,) * 10, (0,) * 10),
        optimum=0.0,
        solution=((1,) * 10, (0,) * 10),
        status="best known",
    ),
    Record(
        name="SinhaMaloDeb2014TP9",
        source="Sinha, Malo, Deb (2014): Test problem construction for single-objective bilevel optimization, 9",
        kind="box",
        f=lambda x, y: ((x - 1) ** 2).sum(0) + (y**2).sum(0),
        g=lambda x, y: exp(_product_of_cosines(torch.ones_like(x), y) * (x**2).sum(0)),
        y_set=box(-math.pi, math.pi),
        start=((0,) * 10, (0,) * 10),
        optimum=0.0,
        solution=((1,) * 10, (0,) * 10),
        status="best known",
    ),
)
"""y lives in a box, and x often too."""

SIMPLE = (
    Record(
        name="MitsosBarton2006Ex34",
        source=MITSOS + "3.4",
        kind="simple",
        f=lambda x, y: y[0] + x[0] ** 2,
        g=lambda x, y: -(y[0] ** 2),
        y_set=box(-0.5, 1),
        start=((-0.5,), (-0.5,)),
        optimum=1.0,
        solution=((0,), (1,)),
    ),
    Record(
        name="MitsosBarton2006Ex36",
        source=MITSOS + "3.6",
        kind="simple",
        f=lambda x, y: y[0] + x[0] ** 2,
        g=lambda x, y: y[0] ** 3,
        y_set=box(-1, 1),
        start=((1,), (1,)),
        optimum=-1.0,
        solution=((0,), (-1,)),
    ),
    Record(
        name="MitsosBarton2006Ex31",
        source=MITSOS + "3.1",
        kind="simple",
        f=lambda x, y: y[0] + x[0] ** 2,
        g=lambda x, y: -y[0],
        y_set=box(-1, 1),
        start=((-1,), (-1,)),
        optimum=1.0,
        solution=((0,), (1,)),
    ),
    Record(
        name="MitsosBarton2006Ex35",
        source=MITSOS + "3.5",
        kind="simple",
        f=lambda x, y: y[0] + x[0] ** 2,
        g=lambda x, y: quartic(y[0]),
        y_set=box(-1, 1),
        start=((-1,), (-1,)),
        optimum=0.5,
        solution=((0,), (0.5,)),
    ),
    Record(
        name="FrankeEtal2018Ex53",
        source="Franke, Mehlitz, Pilecka (2018): Optimality conditions for the simple convex bilevel problem, 5.3",
        kind="simple",
        f=lambda x, y: y[0] ** 2 + y[1] ** 2 + x[0] ** 2,
        g=lambda x, y: (y[0] - 2) ** 2,
        y_set=box(0, 1),
        start=((1,), (1, 1)),
        optimum=1.0,
        solution=((0,), (1, 0)),
    ),
)
"""There is no x in the library: an x of one entry is added, and x² to f."""
