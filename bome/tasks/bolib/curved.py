"""Problems of BOLIB with constraints that are curved."""

import math

from torch import Tensor, exp

from bome.tasks.bolib.intervals import MITSOS, wavy
from bome.tasks.bolib.polyhedra import FRANKE, OUTRATA, distance
from bome.tasks.bolib.record import Record, at_least, at_most

LU = "Lu, Deb, Sinha (2016): Finding reliable solutions in bilevel optimization problems under uncertainties, "
SINHA = "Sinha, Malo, Deb (2014): Test problem construction for single-objective bilevel optimization, "


def _bent(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return (
        -(x[0] ** 2) + 2 * x[0] - x[1] ** 2 + 2 * y[0] - y[1] - 3,
        -x[1] - 3 * y[0] + 4 * y[1] + 4,
        *at_least(0, y),
    )


def _three_curves(c: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    """b is below two parabolas in a and above a line."""
    return (b - c * (a - 2) ** 2, 12.5 * c * (a - 5) - b, b - 5 * (a + 4 - c) * (a + 8 - c))


def _wide(z: Tensor) -> tuple[Tensor, ...]:
    return (-4 - z[0], z[0] - 10, -100 - z[1], z[1] - 200)


def _moving(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """A kite whose sides turn with x."""
    return (
        (0.1 * x[0] - 0.333) * y[0] + y[1] - x[0],
        y[0] - (0.333 + 0.1 * x[0]) * y[1] - 2,
        *at_least(0, y),
    )


def _outrata(x: Tensor, y: Tensor) -> Tensor:
    return (1 + 0.2 * x[0]) * y[0] ** 2 / 2 + (1 + 0.1 * x[0]) * y[1] ** 2 / 2 - (3 + 1.333 * x[0]) * y[0] - x[0] * y[1]


def _cut_circle(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """A quarter of a disk that grows with x, below a line."""
    return (0.1 * x[0] - 0.333 * y[0] + y[1] - 1, -0.1 * x[0] + y[0] ** 2 + y[1] ** 2 - 9, *at_least(0, y))


def _ratio(x: Tensor, y: Tensor) -> Tensor:
    return (x[0] + y[0]) * (x[1] + y[1]) / (1 + x[0] * y[0] + x[1] * y[1])


CURVED = (
    Record(
        name="AllendeStill2013",
        source="Allende, Still (2013): Solving bilevel programs with the KKT-approach",
        kind="nonlinear",
        f=lambda x, y: (x[0] - 1) ** 2 + (x[1] - 1) ** 2 + y[0] ** 2 + y[1] ** 2,
        g=lambda x, y: y[0] ** 2 + y[1] ** 2 - 2 * x[0] * y[0] - 2 * x[1] * y[1],
        H=lambda x, y: (*at_least(0, x), x[0] - 2, *at_least(0, y)),
        h=lambda x, y: ((y[0] - 1) ** 2 - 0.25, (y[1] - 1) ** 2 - 0.25),
        start=((0, 0), (0, 0)),
        optimum=1.0,
        solution=((0.5, 0.5), (0.5, 0.5)),
    ),
    Record(
        name="Bard1988Ex3",
        source="Bard (1988): Convex two-level optimization, example 3",
        kind="nonlinear",
        f=lambda x, y: -(x[0] ** 2) - 3 * x[1] - 4 * y[0] + y[1] ** 2,
        g=lambda x, y: 2 * x[0] ** 2 + y[0] ** 2 - 5 * y[1],
        H=lambda x, y: (x[0] ** 2 + 2 * x[1] - 4, *at_least(0, x)),
        h=_bent,
        start=((0, 2), (4, 1)),
        optimum=-12.6787109,
        solution=((0, 2), (1.875, 0.90625)),
    ),
    Record(
        name="Colson2002BIPA5",
        source="Colson (2002): BIPA, problem 5",
        kind="nonlinear",
        f=lambda x, y: (x[0] - y[1]) ** 4 + (y[0] - 1) ** 2 + (y[0] - y[1]) ** 2,
        g=lambda x, y: 2 * x[0] + exp(y[0]) + y[0] ** 2 + 4 * y[0] + 2 * y[1] ** 2 - 6 * y[1],
        H=lambda x, y: at_least(0, x),
        h=lambda x, y: (
            6 * x[0] + y[0] ** 2 + exp(y[1]) - 15,
            5 * x[0] + y[0] ** 4 - y[1] - 25,
            y[0] - 4,
            y[1] - 2,
            *at_least(0, y),
        ),
        start=((1,), (1, 1)),
        optimum=2.7497676,
        solution=((1.9405290,), (0, 1.2109958)),
        status="best known",
    ),
    Record(
        name="Dempe1992b",
        source="Dempe (1992): A necessary and a sufficient optimality condition for bilevel programming problems, b",
        kind="nonlinear",
        f=lambda x, y: (x[0] - 3.5) ** 2 + (y[0] + 4) ** 2,
        g=lambda x, y: (y[0] - 3) ** 2,
        h=lambda x, y: (-x[0] + y[0] ** 2,),
        start=((-1,), (-1,)),
        optimum=28.25,
        solution=((0,), (0,)),
        correction="BOLIB prints 31.25; the true value is 28.25, since x = y = 0 is feasible and has it",
    ),
    Record(
        name="DempeDutta2012Ex24",
        source="Dempe, Dutta (2012): Is bilevel programming a special case of an MPEC?, example 2.4",
        kind="nonlinear",
        f=lambda x, y: (x[0] - 1) ** 2 + y[0] ** 2,
        g=lambda x, y: x[0] ** 2 * y[0],
        h=lambda x, y: (y[0] ** 2,),
        start=((1,), (1,)),
        optimum=0.0,
        solution=((1,), (0,)),
    ),
    Record(
        name="DempeDutta2012Ex31",
        source="Dempe, Dutta (2012): Is bilevel programming a special case of an MPEC?, example 3.1",
        kind="nonlinear",
        f=lambda x, y: -y[1],
        g=lambda x, y: y[0] ** 2 + (y[1] + 1) ** 2,
        H=lambda x, y: (y[0] * y[1], -y[0] * y[1], *at_least(0, x)),
        h=lambda x, y: (
            (y[0] - x[0]) ** 2 + (y[1] - x[0] - 1) ** 2 - 1,
            (y[0] + x[1]) ** 2 + (y[1] - x[1] - 1) ** 2 - 1,
        ),
        start=((1, 1), (1, 1)),
        optimum=-2.0,
        solution=((1, 1), (0, 2)),
        correction="BOLIB prints −1; the true value is −2, since at x = (1, 1) only y = (0, 2) is feasible",
    ),
    Record(
        name="FloudasZlobec1998",
        source="Floudas, Zlobec (1998): Optimality and duality in parametric convex lexicographic programming",
        kind="nonlinear",
        f=lambda x, y: x[0] ** 3 * y[0] + y[1],
        g=lambda x, y: -y[1],
        H=lambda x, y: (*at_least(0, x), *at_most(1, x)),
        h=lambda x, y: (
            x[0] * y[0] - 10,
            y[0] ** 2 + x[0] * y[1] - 1,
            -1 - y[0],
            y[0] - 1,
            -y[1],
            y[1] - 100,
        ),
        start=((1,), (1, 1)),
        optimum=1.0,
        solution=((1,), (0, 1)),
    ),
    Record(
        name="FrankeEtal2018Ex513",
        source=FRANKE + "5.1.3",
        kind="nonlinear",
        f=lambda x, y: -y[1] + x[0] ** 2,
        g=lambda x, y: y[2],
        h=lambda x, y: (y[0] ** 2 - y[2], y[0] ** 2 + y[1] ** 2 - 1, -y[2]),
        start=((1,), (1, 1, 1)),
        optimum=-1.0,
        solution=((0,), (0, 1, 0)),
    ),
    Record(
        name="FrankeEtal2018Ex521",
        source=FRANKE + "5.2.1",
        kind="nonlinear",
        f=lambda x, y: -y[1] + x[0] ** 2,
        g=lambda x, y: y[0],
        h=lambda x, y: ((y[0] - 1) ** 2 - (y[1] - 0.5) ** 2 - 1.25, y[0] + y[1] - 1, -y[0]),
        start=((0,), (0, 0)),
        optimum=-1.0,
        solution=((0,), (0, 1)),
    ),
    Record(
        name="LamparielloSagratella2017Ex23",
        source="Lampariello, Sagratella (2017): A bridge between bilevel programs and Nash games, example 2.3",
        kind="nonlinear",
        f=lambda x, y: x[0],
        g=lambda x, y: (x[0] - y[0]) ** 2 + (y[1] + 1) ** 2,
        H=lambda x, y: (*at_least(-1, x), *at_most(1, x)),
        h=lambda x, y: (y[0] ** 3 - y[1], -y[1]),
        start=((1,), (1, 1)),
        optimum=-1.0,
        solution=((-1,), (-1, 0)),
    ),
    Record(
        name="LuDebSinha2016f",
        source=LU + "f",
        kind="nonlinear",
        f=lambda x, y: -x[1],
        g=lambda x, y: (x[0] - 50) ** 2 / 784 + 25 * (y[0] - 2.5) ** 2,
        H=lambda x, y: (
            *_three_curves(y[0], x[0] / 20, x[1]),
            -80 - x[0],
            -100 - x[1],
            *at_most(200, x),
            *at_least(2, y),
            *at_most(4, y),
        ),
        start=((1, 1), (1,)),
        optimum=-160.0,
        solution=((200, 160), (2.5,)),
        status="unknown",
    ),
    Record(
        name="MitsosBarton2006Ex322",
        source=MITSOS + "3.22",
        kind="nonlinear",
        f=lambda x, y: (x[0] + 0.6) ** 2 + y[0] ** 2,
        g=wavy,
        H=lambda x, y: (*at_least(-1, x), *at_most(1, x)),
        h=lambda x, y: (0.01 * (1 + x[0] ** 2) - y[0] ** 2, *at_least(-1, y), *at_most(1, y)),
        start=((1,), (1,)),
        optimum=0.2095045,
        solution=((-0.5544567,), (0.4554452,)),
    ),
    Record(
        name="MitsosBarton2006Ex323",
        source=MITSOS + "3.23",
        kind="nonlinear",
        f=lambda x, y: x[0] ** 2,
        g=lambda x, y: y[0],
        H=lambda x, y: (1 + x[0] - 9 * x[0] ** 2 - y[0], *at_least(-1, x), *at_most(1, x)),
        h=lambda x, y: (y[0] ** 2 * (x[0] - 0.5), *at_least(-1, y), *at_most(1, y)),
        start=((0,), (1,)),
        optimum=(37 - math.sqrt(73)) / 162,
        solution=(((1 - math.sqrt(73)) / 18,), (-1,)),
    ),
    Record(
        name="MitsosBarton2006Ex33",
        source=MITSOS + "3.3",
        kind="nonlinear",
        f=lambda x, y: y[0] + x[0] ** 2,
        g=lambda x, y: y[0] ** 2,
        h=lambda x, y: (1 - y[0] ** 2, *at_least(-10, y), *at_most(10, y)),
        start=((-10,), (-10,)),
        optimum=-1.0,
        solution=((0,), (-1,)),
    ),
    Record(
        name="Outrata1990Ex2d",
        source=OUTRATA + "2d",
        kind="nonlinear",
        f=lambda x, y: distance(y),
        g=lambda x, y: y[0] ** 2 / 2 + y[1] ** 2 / 2 - (3 + 1.333 * x[0]) * y[0] - x[0] * y[1],
        H=lambda x, y: at_least(0, x),
        h=_moving,
        start=((0,), (0, 0)),
        optimum=0.8485054,
        solution=((2.856343,), (3.8807456, 3.0401573)),
        status="best known",
        correction="BOLIB prints 0.92; the true value is 0.8485, at x = 2.8563, y = (3.8807, 3.0402)",
    ),
    Record(
        name="Outrata1990Ex2e",
        source=OUTRATA + "2e",
        kind="nonlinear",
        f=lambda x, y: distance(y),
        g=lambda x, y: (1 + x[0]) * y[0] ** 2 / 2 + y[1] ** 2 / 2 - (3 + 1.333 * x[0]) * y[0] - x[0] * y[1],
        H=lambda x, y: at_least(0, x),
        h=_moving,
        start=((0,), (0, 0)),
        optimum=0.8974598,
        solution=((3.9985352,), (1.6650089, 3.8872235)),
        status="best known",
    ),
    Record(
        name="Outrata1993Ex31",
        source="Outrata (1993): Necessary optimality conditions for Stackelberg problems, example 3.1",
        kind="nonlinear",
        f=lambda x, y: distance(y),
        g=_outrata,
        H=lambda x, y: at_least(0, x),
        h=lambda x, y: (
            (0.1 * x[0] - 0.333) * y[0] + y[1] + 0.1 * x[0] - 2,
            y[0] - (0.333 + 0.1 * x[0]) * y[1] + 0.1 * x[0] - 2,
            *at_least(0, y),
        ),
        start=((0,), (0, 0)),
        optimum=1.5628738,
        solution=((1.909518,), (2.9785879, 2.2321513)),
        status="best known",
    ),
    Record(
        name="Outrata1993Ex32",
        source="Outrata (1993): Necessary optimality conditions for Stackelberg problems, example 3.2",
        kind="nonlinear",
        f=lambda x, y: distance(y),
        g=_outrata,
        H=lambda x, y: at_least(0, x),
        h=_cut_circle,
        start=((0,), (0, 0)),
        optimum=3.2076877,
        solution=((4.0603378,), (2.6822401, 1.4871522)),
        status="best known",
    ),
    Record(
        name="Outrata1994Ex31",
        source="Outrata (1994): On optimization problems with variational inequality constraints, example 3.1",
        kind="nonlinear",
        f=lambda x, y: distance(y),
        g=_outrata,
        H=lambda x, y: (*at_least(0, x), *at_most(10, x)),
        h=_cut_circle,
        start=((0,), (0, 0)),
        optimum=3.2076877,
        solution=((4.0603378,), (2.6822401, 1.4871522)),
        status="best known",
    ),
    Record(
        name="SinhaMaloDeb2014TP3",
        source=SINHA + "3",
        kind="nonlinear",
        f=lambda x, y: -(x[0] ** 2) - 3 * x[1] ** 2 - 4 * y[0] + y[1] ** 2,
        g=lambda x, y: 2 * x[0] ** 2 + y[0] ** 2 - 5 * y[1],
        H=lambda x, y: (x[0] ** 2 + 2 * x[1] - 4, *at_least(0, x)),
        h=_bent,
        start=((1, 1), (1, 1)),
        optimum=-18.6787109,
        solution=((0, 2), (1.875, 0.90625)),
        status="best known",
    ),
    Record(
        name="SinhaMaloDeb2014TP7",
        source=SINHA + "7",
        kind="nonlinear",
        f=lambda x, y: -_ratio(x, y),
        g=_ratio,
        H=lambda x, y: (x[0] - x[1], x[0] ** 2 + x[1] ** 2 - 100, *at_least(0, x)),
        h=lambda x, y: (y[0] - x[0], y[1] - x[1], *at_least(0, y)),
        start=((1, 1), (0, 1)),
        optimum=-100 / 51,
        solution=((7.0710678, 7.0710678), (0, 7.0710678)),
        status="best known",
    ),
    Record(
        name="Zlobec2001a",
        source="Zlobec (2001): Bilevel programming: optimality conditions and duality, a",
        kind="nonlinear",
        f=lambda x, y: -y[0] / x[0],
        g=lambda x, y: -y[0] - y[1],
        h=lambda x, y: (y[0] + x[0] * y[1] - 1, *at_least(0, y)),
        start=((1,), (1, 1)),
        optimum=-1.0,
        solution=((1,), (1, 0)),
    ),
)
"""h or H is not affine."""
