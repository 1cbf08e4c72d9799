"""Quadratic and other nonlinear problems of BOLIB whose constraints couple x and y."""

import math

from torch import Tensor, exp

from bome.tasks.bolib.record import Formula, Record, at_least, at_most


def _travel(c: float) -> Formula:
    """The time that flows y take on five links of capacities 1 + x; a link of congestion c."""
    return lambda x, y: (
        y[0] * (50 + c * y[0] / (1 + x[0]))
        + 10 * c * y[1] ** 2 / (1 + x[1])
        + y[2] * (10 + c * y[2] / (1 + x[2]))
        + 10 * c * y[3] ** 2 / (1 + x[3])
        + y[4] * (50 + c * y[4] / (1 + x[4]))
    )


def _balance(y: Tensor) -> tuple[Tensor, ...]:
    """What flows into a node and not out of it; six units enter the network."""
    return (y[0] + y[2] + y[4] - 6, y[1] - y[2] - y[4], y[3] - y[0] - y[2])


QUADRATIC = (
    Record(
        name="AiyoshiShimizu1984Ex2",
        source="Aiyoshi, Shimizu (1984): A solution method for the static constrained Stackelberg problem, example 2",
        kind="quadratic",
        f=lambda x, y: 2 * x[0] + 2 * x[1] - 3 * y[0] - 3 * y[1] - 60,
        g=lambda x, y: (y[0] - x[0] + 20) ** 2 + (y[1] - x[1] + 20) ** 2,
        H=lambda x, y: (x[0] + x[1] + y[0] - 2 * y[1] - 40, *at_least(0, x), *at_most(50, x)),
        h=lambda x, y: (
            -x[0] + 2 * y[0] + 10,
            -x[1] + 2 * y[1] + 10,
            *at_least(-10, y),
            *at_most(20, y),
        ),
        start=((10, 10), (20, 20)),
        optimum=0.0,
        solution=((0, 0), (-10, -10)),
        correction="BOLIB prints 5; the true value is 0, since x = (0, 0), y = (−10, −10) is feasible and has it",
    ),
    Record(
        name="Bard1988Ex2",
        source="Bard (1988): Convex two-level optimization, example 2",
        kind="quadratic",
        f=lambda x, y: (y[0] + y[2]) * (y[0] + y[2] - 200) + (y[1] + y[3]) * (y[1] + y[3] - 160),
        g=lambda x, y: (y[0] - 4) ** 2 + (y[1] - 13) ** 2 + (y[2] - 35) ** 2 + (y[3] - 2) ** 2,
        H=lambda x, y: (x.sum(0) - 40, x[0] - 10, x[1] - 5, x[2] - 15, x[3] - 20, *at_least(0, x)),
        h=lambda x, y: (
            0.4 * y[0] + 0.7 * y[1] - x[0],
            0.6 * y[0] + 0.3 * y[1] - x[1],
            0.4 * y[2] + 0.7 * y[3] - x[2],
            0.6 * y[2] + 0.3 * y[3] - x[3],
            *at_most(20, y[:2]),
            *at_most(40, y[2:]),
            *at_least(0, y),
        ),
        start=((5, 5, 15, 15), (0, 0, 0, 0)),
        optimum=-6600.0,
        solution=((7, 3, 12, 18), (0, 10, 30, 0)),
    ),
    Record(
        name="Bard1991Ex1",
        source="Bard (1991): Some properties of the bilevel programming problem, example 1",
        kind="quadratic",
        f=lambda x, y: x[0] + y[1],
        g=lambda x, y: 2 * y[0] + x[0] * y[1],
        H=lambda x, y: (*at_least(2, x), *at_most(4, x)),
        h=lambda x, y: (x[0] - y[0] - y[1] + 4, *at_least(0, y)),
        start=((1,), (1, 1)),
        optimum=2.0,
        solution=((2,), (6, 0)),
    ),
    Record(
        name="ClarkWesterberg1990a",
        source="Clark, Westerberg (1990): Bilevel programming for steady-state chemical process design, a",
        kind="quadratic",
        f=lambda x, y: (x[0] - 3) ** 2 + (y[0] - 2) ** 2,
        g=lambda x, y: (y[0] - 5) ** 2,
        H=lambda x, y: (*at_least(0, x), *at_most(8, x)),
        h=lambda x, y: (-2 * x[0] + y[0] - 1, x[0] - 2 * y[0] + 2, x[0] + 2 * y[0] - 14),
        start=((1,), (1,)),
        optimum=5.0,
        solution=((1,), (3,)),
    ),
    Record(
        name="SinhaMaloDeb2014TP6",
        source="Sinha, Malo, Deb (2014): Test problem construction for single-objective bilevel optimization, 6",
        kind="quadratic",
        f=lambda x, y: (x[0] - 1) ** 2 - 2 * x[0] + 2 * y[0],
        g=lambda x, y: (2 * y[0] - 4) ** 2 + (2 * y[1] - 1) ** 2 + x[0] * y[0],
        H=lambda x, y: at_least(0, x),
        h=lambda x, y: (
            4 * x[0] + 5 * y[0] + 4 * y[1] - 12,
            -4 * x[0] - 5 * y[0] + 4 * y[1] + 4,
            4 * x[0] - 4 * y[0] + 5 * y[1] - 4,
            -4 * x[0] + 4 * y[0] + 5 * y[1] - 4,
            *at_least(0, y),
        ),
        start=((1,), (1, 1)),
        optimum=-98 / 81,
        solution=((17 / 9,), (8 / 9, 0)),
        status="best known",
    ),
)
"""f or g is quadratic, h and H are affine."""

NONLINEAR = (
    Record(
        name="Colson2002BIPA3",
        source="Colson (2002): BIPA, problem 3",
        kind="nonlinear",
        f=lambda x, y: (x[0] - 5) ** 4 + (2 * y[0] + 1) ** 4,
        g=lambda x, y: exp(y[0] - x[0]) + x[0] ** 2 + 2 * x[0] * y[0] + y[0] ** 2 + 2 * x[0] + 6 * y[0],
        H=lambda x, y: (x[0] + y[0] - 4, *at_least(0, x)),
        h=lambda x, y: (-x[0] + y[0] - 2, *at_least(0, y)),
        start=((4,), (0,)),
        optimum=2.0,
        solution=((4,), (0,)),
        status="best known",
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
        name="NetworkDesignP2",
        source="BOLIB, network design, problem 2",
        kind="nonlinear",
        f=lambda x, y: x.sum(0) + _travel(1.0)(x, y),
        g=_travel(0.5),
        H=lambda x, y: at_least(-1, x),
        h=lambda x, y: (*_balance(y), *(-inflow for inflow in _balance(y)), *at_least(0, y)),
        start=((0,) * 5, (0,) * 5),
        optimum=4 * math.sqrt(360) + 67,
        solution=((-1 + 1e-9, math.sqrt(360) - 1, 5, math.sqrt(360) - 1, -1 + 1e-9), (0, 6, 6, 6, 0)),
        status="best known",
        correction="the value is an infimum: 4√360 + 67, in the limit x₁, x₅ → −1",
    ),
    Record(
        name="Outrata1993Ex32",
        source="Outrata (1993): Necessary optimality conditions for Stackelberg problems, example 3.2",
        kind="nonlinear",
        f=lambda x, y: (y[0] - 3) ** 2 / 2 + (y[1] - 4) ** 2 / 2,
        g=lambda x, y: (
            (1 + 0.2 * x[0]) * y[0] ** 2 / 2
            + (1 + 0.1 * x[0]) * y[1] ** 2 / 2
            - (3 + 1.333 * x[0]) * y[0]
            - x[0] * y[1]
        ),
        H=lambda x, y: at_least(0, x),
        h=lambda x, y: (
            0.1 * x[0] - 0.333 * y[0] + y[1] - 1,
            -0.1 * x[0] + y[0] ** 2 + y[1] ** 2 - 9,
            *at_least(0, y),
        ),
        start=((0,), (0, 0)),
        optimum=3.2076877,
        solution=((4.0603378,), (2.6822401, 1.4871522)),
        status="best known",
    ),
    Record(
        name="YeZhu2010Ex43",
        source="Ye, Zhu (2010): New necessary optimality conditions for bilevel programs, example 4.3",
        kind="nonlinear",
        f=lambda x, y: (x[0] - 0.5) ** 2 + (y[0] - 2) ** 2,
        g=lambda x, y: y[0] ** 3 - 3 * y[0],
        H=lambda x, y: (*at_least(0, x), *at_most(4, x)),
        h=lambda x, y: (x[0] - y[0] - 3,),
        start=((-1,), (-1,)),
        optimum=1.25,
        solution=((1,), (1,)),
    ),
)
"""Some of f, g, h and H are neither affine nor quadratic."""
