"""Problems of BOLIB without constraints, with a box for y, and without x."""

import math

import torch
from torch import Tensor, cos, exp

from bome.projections import box, polyhedron
from bome.tasks.bolib.record import Record

MITSOS = "Mitsos, Barton (2006): A test set for bilevel programs, example "


def _quartic(y: Tensor) -> Tensor:
    """16y⁴ + 2y³ − 8y² − 1.5y + 0.5, with minima at −0.5 and near 0.49."""
    return 16 * y**4 + 2 * y**3 - 8 * y**2 - 1.5 * y + 0.5


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
)
"""Both variables are free."""

BOXES = (
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
        name="KleniatiAdjiman2014Ex3",
        source="Kleniati, Adjiman (2014): Branch-and-sandwich, part II, example 3",
        kind="box",
        f=lambda x, y: x[0] - y[0],
        g=lambda x, y: x[0] * y[0] ** 2 / 2 - x[0] * y[0] ** 3,
        x_set=box(-1, 1),
        y_set=box(-1, 1),
        start=((1,), (1,)),
        optimum=-1.0,
        solution=((0,), (1,)),
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
        name="MitsosBarton2006Ex311",
        source=MITSOS + "3.11",
        kind="box",
        f=lambda x, y: y[0],
        g=lambda x, y: x[0] * _quartic(y[0]),
        x_set=box(-1, 1),
        y_set=box(-0.8, 1),
        start=((1,), (1,)),
        optimum=-0.8,
        solution=((0,), (-0.8,)),
    ),
    Record(
        name="MitsosBarton2006Ex313",
        source=MITSOS + "3.13",
        kind="box",
        f=lambda x, y: x[0] - y[0],
        g=lambda x, y: x[0] * y[0] ** 2 / 2 - x[0] ** 3 * y[0],
        x_set=box(-1, 1),
        y_set=box(-1, 1),
        start=((1,), (1,)),
        optimum=-1.0,
        solution=((0,), (1,)),
    ),
    Record(
        name="MitsosBarton2006Ex315",
        source=MITSOS + "3.15",
        kind="box",
        f=lambda x, y: x[0] + y[0],
        g=lambda x, y: x[0] * y[0] ** 2 / 2 - y[0] ** 3 / 3,
        x_set=box(-1, 1),
        y_set=box(-1, 1),
        start=((1,), (1,)),
        optimum=0.0,
        solution=((-1,), (1,)),
    ),
    Record(
        name="MitsosBarton2006Ex317",
        source=MITSOS + "3.17",
        kind="box",
        f=lambda x, y: (x[0] + 0.5) ** 2 + y[0] ** 2 / 2,
        g=lambda x, y: x[0] * y[0] ** 2 / 2 + y[0] ** 4 / 4,
        x_set=box(-1, 1),
        y_set=box(-1, 1),
        start=((1,), (1,)),
        optimum=0.1875,
        solution=((-0.25,), (0.5,)),
    ),
    Record(
        name="MitsosBarton2006Ex319",
        source=MITSOS + "3.19",
        kind="box",
        f=lambda x, y: x[0] * y[0] - y[0] + y[0] ** 2 / 2,
        g=lambda x, y: -x[0] * y[0] ** 2 + y[0] ** 4 / 2,
        x_set=box(-1, 1),
        y_set=box(-1, 1),
        start=((-1,), (1,)),
        optimum=-0.2580758,
        solution=((0.1886288,), (0.4343142,)),
    ),
    Record(
        name="MitsosBarton2006Ex321",
        source=MITSOS + "3.21",
        kind="box",
        f=lambda x, y: (x[0] + 0.6) ** 2 + y[0] ** 2,
        g=lambda x, y: (
            y[0] ** 4
            + 2 / 15 * (1 - x[0]) * y[0] ** 3
            + (-0.02 * x[0] ** 2 + 0.16 * x[0] - 0.4) * y[0] ** 2
            + (0.004 * x[0] ** 3 - 0.036 * x[0] ** 2 + 0.08 * x[0]) * y[0]
        ),
        x_set=box(-1, 1),
        y_set=box(-1, 1),
        start=((1,), (1,)),
        optimum=0.2095045,
        solution=((-0.5544567,), (0.4554452,)),
    ),
    Record(
        name="MorganPatrone2006a",
        source="Morgan, Patrone (2006): Stackelberg problems: subgame perfect equilibria via Tikhonov regularization",
        kind="box",
        f=lambda x, y: -x[0] - y[0],
        g=lambda x, y: x[0] * y[0],
        x_set=box(-0.5, 0.5),
        y_set=box(-1, 1),
        start=((1,), (1,)),
        optimum=-1.0,
        solution=((0,), (1,)),
    ),
    Record(
        name="PaulaviciusAdjiman2017b",
        source="Paulavičius, Adjiman (2017): New bounding schemes for the branch-and-sandwich algorithm, b",
        kind="box",
        f=lambda x, y: x[0] + y[0],
        g=lambda x, y: x[0] * y[0] ** 2 / 2 - x[0] ** 3 * y[0],
        x_set=box(-1, 1),
        y_set=box(-1, 1),
        start=((1,), (1,)),
        optimum=-2.0,
        solution=((-1,), (-1,)),
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
)
"""There is no x in the library: an x of one entry is added, and x² to f."""
