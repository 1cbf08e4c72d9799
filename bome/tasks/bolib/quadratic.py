"""Quadratic problems of BOLIB whose constraints couple x and y."""

from collections.abc import Iterable

import torch
from torch import Tensor

from bome.tasks.bolib.boxes import LAMPARIELLO
from bome.tasks.bolib.record import Numbers, Record, at_least, at_most

AN_F = ((-3.8, 4.4, 1.2, -2.2), (4.4, -2.2, 0.6, 1.8), (1.2, 0.6, 0, 0.4), (-2.2, 1.8, 0.4, 0))
AN_G = (
    (21.10204, 11.81633, -17.85, 6.575),
    (11.81633, -14.44898, 30.325, 30.325),
    (-17.85, 30.325, 0, 0),
    (6.575, 30.325, 0, 0),
)
"""Of f in AnEtal2009, in x and y, and of g, in y and x."""


def _form(matrix: tuple[Numbers, ...], *parts: Tensor) -> Tensor:
    """½ zᵀ M z, with the parts of z."""
    entries = [entry for part in parts for entry in part]
    return _dot((0.5,) * len(matrix), [_dot(row, *parts) * z for row, z in zip(matrix, entries, strict=True)])


def _dot(weights: Numbers, *parts: Iterable[Tensor]) -> Tensor:
    entries = [entry for part in parts for entry in part]
    return sum((w * z for w, z in zip(weights, entries, strict=True)), start=0 * entries[0])


def _below(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """2y ≤ x − 10, and y between −10 and 20."""
    return (-x[0] + 2 * y[0] + 10, -x[1] + 2 * y[1] + 10, *at_least(-10, y), *at_most(20, y))


def _bard(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """A triangle in the plane of x and y."""
    return (-3 * x[0] + y[0] + 3, x[0] - y[0] / 2 - 4, x[0] + y[0] - 7)


def _strips(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """x − 1 ≤ y, and x + y between 1 and (1.5, 3), for the first two entries of x."""
    return (
        *(x[i] - y[i] - 1 for i in range(2)),
        x[0] + y[0] - 1.5,
        x[1] + y[1] - 3,
        *(1 - x[i] - y[i] for i in range(2)),
    )


def _turned(x: Tensor) -> Tensor:
    """The unknowns of CalamaiVicente1994b from those of 1994c."""
    rows = ((331, 27, -108, -36), (27, 259, -36, -12), (-108, -36, 419, -27), (-36, -12, -27, 491))
    return torch.stack([_dot(row, x) for row in rows]) / 25


QUADRATIC = (
    Record(
        name="AiyoshiShimizu1984Ex2",
        source="Aiyoshi, Shimizu (1984): A solution method for the static constrained Stackelberg problem, example 2",
        kind="quadratic",
        f=lambda x, y: 2 * x[0] + 2 * x[1] - 3 * y[0] - 3 * y[1] - 60,
        g=lambda x, y: (y[0] - x[0] + 20) ** 2 + (y[1] - x[1] + 20) ** 2,
        H=lambda x, y: (x[0] + x[1] + y[0] - 2 * y[1] - 40, *at_least(0, x), *at_most(50, x)),
        h=_below,
        start=((10, 10), (20, 20)),
        optimum=0.0,
        solution=((0, 0), (-10, -10)),
        correction="BOLIB prints 5; the true value is 0, since x = (0, 0), y = (−10, −10) is feasible and has it",
    ),
    Record(
        name="AnEtal2009",
        source="An, Tao, Nguyen, Muu (2009): a quadratic bilevel problem, with random numbers",
        kind="quadratic",
        f=lambda x, y: _form(AN_F, x, y) + _dot((935.74474, 87.53654, 121.96196, 299.24825), x, y),
        g=lambda x, y: _form(AN_G, y, x) + _dot((-18.21053, 13.05263), y),
        H=lambda x, y: (
            _dot((0, 3.88889, 4.88889, 7.44444), x, y) - 61.57778,
            _dot((-2, 8.77778, -5.11111, 0.88889), x, y) - 0.8,
            *at_least(0, x),
            *at_least(0, y),
        ),
        h=lambda x, y: (
            _dot((5, 7.44444, 3.88889, 1.77778), x, y) - 39.62222,
            _dot((-8.33333, 3, 6.88889, 6.11111), x, y) - 60,
            _dot((-8.66667, -8.55556, -5.33333, -7), x, y) + 72.37778,
            _dot((6.44444, -5.11111, 1.44444, 4.44444), x, y) - 17.28889,
        ),
        start=((1, 1), (1, 1)),
        optimum=2251.5531,
        solution=((0.200000814, 1.999998014), (3.999999475, 4.600002677)),
    ),
    Record(
        name="Bard1988Ex1",
        source="Bard (1988): Convex two-level optimization, example 1",
        kind="quadratic",
        f=lambda x, y: (x[0] - 5) ** 2 + (2 * y[0] + 1) ** 2,
        g=lambda x, y: (y[0] - 1) ** 2 - 1.5 * x[0] * y[0],
        H=lambda x, y: at_least(0, x),
        h=lambda x, y: (*_bard(x, y), *at_least(0, y)),
        start=((4,), (0,)),
        optimum=17.0,
        solution=((1,), (0,)),
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
        name="BardBook1998",
        source="Bard (1998): Practical bilevel optimization",
        kind="quadratic",
        f=lambda x, y: (y[0] - x[0] + 20) ** 2 + (y[1] - x[1] + 20) ** 2,
        g=lambda x, y: 2 * x[0] + 2 * x[1] - 3 * y[0] - 3 * y[1] - 60,
        H=lambda x, y: (*at_least(0, x), *at_most(50, x)),
        h=lambda x, y: (x[0] + x[1] + y[0] - 2 * y[1] - 40, *_below(x, y)),
        start=((1, 1), (1, 1)),
        optimum=0.0,
        solution=((25, 30), (5, 10)),
    ),
    Record(
        name="CalamaiVicente1994a",
        source="Calamai, Vicente (1994): Generating quadratic bilevel programming test problems, a",
        kind="quadratic",
        f=lambda x, y: (x[0] - 1) ** 2 / 2 + y[0] ** 2 / 2,
        g=lambda x, y: y[0] / 2 - x[0] * y[0],
        h=lambda x, y: (x[0] - y[0] - 1, 1 - x[0] - y[0], x[0] + y[0] - 1),
        start=((1,), (1,)),
        optimum=0.0,
        solution=((1,), (0,)),
    ),
    Record(
        name="CalamaiVicente1994b",
        source="Calamai, Vicente (1994): Generating quadratic bilevel programming test problems, b",
        kind="quadratic",
        f=lambda x, y: ((x - 1) ** 2).sum(0) / 2 + (y**2).sum(0) / 2,
        g=lambda x, y: (y**2).sum(0) / 2 - (x[:2] * y).sum(0),
        h=lambda x, y: _strips(x, y),
        start=((1,) * 4, (1, 1)),
        optimum=0.3125,
        solution=((1.25, 0.5, 1, 1), (0.25, 0.5)),
    ),
    Record(
        name="CalamaiVicente1994c",
        source="Calamai, Vicente (1994): Generating quadratic bilevel programming test problems, c",
        kind="quadratic",
        f=lambda x, y: ((_turned(x) - 1) ** 2).sum(0) / 2 + 50 * (y**2).sum(0),
        g=lambda x, y: 50 * (y**2).sum(0) - 10 * (_turned(x)[:2] * y).sum(0),
        h=lambda x, y: _strips(_turned(x), 10 * y),
        start=((1,) * 4, (1, 1)),
        optimum=0.3125,
        solution=((0.13085, 0.05195, 0.1022, 0.0674), (0.025, 0.05)),
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
        name="FloudasEtal2013",
        source="Floudas, Pardalos and others (2013): Handbook of test problems in local and global optimization",
        kind="quadratic",
        f=lambda x, y: 2 * x[0] + 2 * x[1] - 3 * y[0] - 3 * y[1] - 60,
        g=lambda x, y: (y[0] - x[0] + 20) ** 2 + (y[1] - x[1] + 20) ** 2,
        H=lambda x, y: (*at_least(0, x), *at_most(50, x)),
        h=lambda x, y: (x[0] + x[1] + y[0] - 2 * y[1] - 40, *_below(x, y)),
        start=((10, 10), (20, 20)),
        optimum=0.0,
        solution=((0, 0), (-10, -10)),
    ),
    Record(
        name="GumusFloudas2001Ex4",
        source="Gümüş, Floudas (2001): Global optimization of nonlinear bilevel programming problems, example 4",
        kind="quadratic",
        f=lambda x, y: (x[0] - 3) ** 2 + (y[0] - 2) ** 2,
        g=lambda x, y: (y[0] - 5) ** 2,
        H=lambda x, y: (
            -2 * x[0] + y[0] - 1,
            x[0] - 2 * y[0] + 2,
            x[0] + 2 * y[0] - 14,
            *at_least(0, x),
            *at_most(8, x),
        ),
        h=lambda x, y: (*at_least(0, y), *at_most(10, y)),
        start=((1,), (1,)),
        optimum=9.0,
        solution=((3,), (5,)),
    ),
    Record(
        name="LamparielloSagratella2017Ex31",
        source=LAMPARIELLO + "3.1",
        kind="quadratic",
        f=lambda x, y: x[0] ** 2 + y[0] ** 2,
        g=lambda x, y: y[0],
        H=lambda x, y: at_least(1, x),
        h=lambda x, y: (1 - x[0] - y[0],),
        start=((1,), (1,)),
        optimum=1.0,
        solution=((1,), (0,)),
    ),
    Record(
        name="LamparielloSagratella2017Ex33",
        source=LAMPARIELLO + "3.3",
        kind="quadratic",
        f=lambda x, y: x[0] ** 2 + (y[0] + y[1]) ** 2,
        g=lambda x, y: y[0],
        H=lambda x, y: at_least(0.5, x),
        h=lambda x, y: (1 - x[0] - y[0] - y[1], *at_least(0, y)),
        start=((1,), (1, 1)),
        optimum=0.5,
        solution=((0.5,), (0, 0.5)),
    ),
    Record(
        name="LamparielloSagratella2017Ex35",
        source=LAMPARIELLO + "3.5",
        kind="quadratic",
        f=lambda x, y: x[0] ** 2 + y[0] ** 2,
        g=lambda x, y: -y[0],
        H=lambda x, y: (*at_least(-1, x), *at_most(1, x)),
        h=lambda x, y: (2 * x[0] + y[0] - 2, *at_least(0, y), *at_most(1, y)),
        start=((1,), (1,)),
        optimum=0.8,
        solution=((0.8,), (0.4,)),
    ),
    Record(
        name="MuuQuy2003Ex1",
        source="Muu, Quy (2003): A global optimization method for convex quadratic bilevel programming, example 1",
        kind="quadratic",
        f=lambda x, y: x[0] ** 2 - 4 * x[0] + y[0] ** 2 + y[1] ** 2,
        g=lambda x, y: y[0] ** 2 + y[1] ** 2 / 2 + y[0] * y[1] + (1 - 3 * x[0]) * y[0] + (1 + x[0]) * y[1],
        H=lambda x, y: (*at_least(0, x), *at_most(2, x)),
        h=lambda x, y: (-2 * x[0] + 2 * y[0] + y[1] - 1, *at_least(0, y)),
        start=((2,), (0, 0)),
        optimum=-27 / 13,
        solution=((11 / 13,), (10 / 13, 0)),
        status="best known",
    ),
    Record(
        name="MuuQuy2003Ex2",
        source="Muu, Quy (2003): A global optimization method for convex quadratic bilevel programming, example 2",
        kind="quadratic",
        f=lambda x, y: y[0] ** 2 + y[2] ** 2 - y[0] * y[2] - 4 * y[1] - 7 * x[0] + 4 * x[1],
        g=lambda x, y: (
            y[0] ** 2 + y[1] ** 2 / 2 + y[2] ** 2 / 2 + y[0] * y[1] + (1 - 3 * x[0]) * y[0] + (1 + x[1]) * y[1]
        ),
        H=lambda x, y: (x[0] + x[1] - 1, *at_least(0, x)),
        h=lambda x, y: (x[0] - 2 * x[1] + 2 * y[0] + y[1] - y[2] + 2, *at_least(0, y)),
        start=((0, 1), (1, 1, 1)),
        optimum=23 / 36,
        solution=((11 / 18, 7 / 18), (0, 0, 11 / 6)),
        status="best known",
        correction="BOLIB prints 0.6426; the true value is 23/36 = 0.6389, at x = (11/18, 7/18), y = (0, 0, 11/6)",
    ),
    Record(
        name="SahinCiric1998Ex2",
        source="Sahin, Ciric (1998): A dual temperature simulated annealing approach, example 2",
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
        name="ShimizuAiyoshi1981Ex1",
        source="Shimizu, Aiyoshi (1981): A new computational method for Stackelberg and min-max problems, example 1",
        kind="quadratic",
        f=lambda x, y: x[0] ** 2 + (y[0] - 10) ** 2,
        g=lambda x, y: (x[0] + 2 * y[0] - 30) ** 2,
        H=lambda x, y: (-x[0] + y[0], *at_least(0, x), *at_most(15, x)),
        h=lambda x, y: (x[0] + y[0] - 20, *at_least(0, y), *at_most(20, y)),
        start=((1,), (1,)),
        optimum=100.0,
        solution=((10,), (10,)),
    ),
    Record(
        name="ShimizuEtal1997a",
        source="Shimizu, Ishizuka, Bard (1997): Nondifferentiable and two-level mathematical programming, a",
        kind="quadratic",
        f=lambda x, y: (x[0] - 5) ** 2 + (2 * y[0] + 1) ** 2,
        g=lambda x, y: (y[0] - 1) ** 2 - 1.5 * x[0] * y[0],
        h=_bard,
        start=((1,), (1,)),
        optimum=23125 / 1369,
        solution=((35 / 37,), (-6 / 37,)),
        status="unknown",
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
    Record(
        name="SinhaMaloDeb2014TP8",
        source="Sinha, Malo, Deb (2014): Test problem construction for single-objective bilevel optimization, 8",
        kind="quadratic",
        f=lambda x, y: (2 * x[0] + 2 * x[1] - 3 * y[0] - 3 * y[1] - 60) ** 2,
        g=lambda x, y: (y[0] - x[0] + 20) ** 2 + (y[1] - x[1] + 20) ** 2,
        H=lambda x, y: (x[0] + x[1] + y[0] - 2 * y[1] - 40, *at_least(0, x), *at_most(50, x)),
        h=_below,
        start=((1, 1), (1, 1)),
        optimum=0.0,
        solution=((0, 0), (-10, -10)),
    ),
    Record(
        name="TuyEtal2007",
        source="Tuy, Migdalas, Hoai-Phuong (2007): A novel approach to bilevel nonlinear programming",
        kind="quadratic",
        f=lambda x, y: x[0] ** 2 + y[0] ** 2,
        g=lambda x, y: -y[0],
        H=lambda x, y: (*at_least(0, x), *at_least(0, y)),
        h=lambda x, y: (3 * x[0] + y[0] - 15, x[0] + y[0] - 7, x[0] + 3 * y[0] - 15),
        start=((5,), (0,)),
        optimum=22.5,
        solution=((4.5,), (1.5,)),
    ),
    Record(
        name="WanWangLv2011",
        source="Wan, Wang, Lv (2011): a dual-relax penalty function approach",
        kind="quadratic",
        f=lambda x, y: (1 + x[0] - x[1] + 2 * y[1]) * (8 - x[0] - 2 * y[0] + y[1] + 5 * y[2]),
        g=lambda x, y: 2 * y[0] - y[1] + y[2],
        h=lambda x, y: (
            -y[0] + y[1] + y[2] - 1,
            2 * x[0] - y[0] + 2 * y[1] - y[2] / 2 - 1,
            2 * x[1] + 2 * y[0] - y[1] - y[2] / 2 - 1,
            *at_least(0, x),
            *at_least(0, y),
        ),
        start=((0, 0.5), (0, 0, 0)),
        optimum=7.5,
        solution=((0.5, 0.5), (0, 0, 0)),
        correction="BOLIB prints 10.62; the true value is 7.5, since x = (½, ½), y = (0, 0, 0) is feasible and has it",
    ),
    Record(
        name="Yezza1996Ex41",
        source="Yezza (1996): First-order necessary optimality conditions for general bilevel programs, example 4.1",
        kind="quadratic",
        f=lambda x, y: (y[0] - x[0] + 2) ** 2 / 2 + (y[0] - 2) ** 2 / 2,
        g=lambda x, y: y[0] ** 2 / 2 + x[0] - y[0],
        h=lambda x, y: (-y[0], y[0] - x[0]),
        start=((-1,), (-1,)),
        optimum=0.5,
        solution=((3,), (1,)),
    ),
)
"""f or g is quadratic, h and H are affine."""
