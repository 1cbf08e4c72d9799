"""Problems of BOLIB with polynomials of up to ten unknowns, and the best portfolios of ten shares."""

import torch
from torch import Tensor, exp

from bome.tasks.bolib.intervals import MITSOS
from bome.tasks.bolib.record import Formulas, Record, at_least, at_most

NIE = "Nie, Wang, Ye (2017): Bilevel polynomial programs and semidefinite relaxation methods, example "


def _squares(z: Tensor) -> Tensor:
    return (z**2).sum(0)


def _both(z: Tensor) -> tuple[Tensor, ...]:
    """Between −1 and 1."""
    return (*at_least(-1, z), *at_most(1, z))


def _five(x: Tensor, y: Tensor) -> Tensor:
    """g of three problems with five entries of x and of y."""
    return y[0] ** 3 + y[1] ** 2 * (x[0] + x[1]) + 0.1 * y[2] + x[2] * x[3] * x[4] * (y[3] ** 2 + y[4] ** 2)


def _five_above(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return (*_both(x), y[0] * y[1] - x[0], x[0] - exp(x[1]) + y[2], x[1] * y[0] ** 2)


def _five_below(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return (*_both(y), y[0] * y[1] - 0.3, x[0] - 0.2 - y[2] ** 2, y[3] * y[4] - 0.1 - exp(y[2]))


def _shares(*, grows: bool) -> Formulas:
    """Returns y of ten shares near their means; with `grows` less near where x is uneven."""

    def constraints(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        off = [(y[i] - 1.155 - 0.005 * i) ** 2 / (i + 1) for i in range(10)]
        apart = 18000 / 11 * torch.stack(off).sum(0)
        size = 1 + _squares(x[:10] - 0.1) if grows else 1
        return (apart - 2.25 * size**2, *at_least(0, y))

    return constraints


def _invested(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """The shares x₁ to x₁₀ sum to 1, and what they return is at least x₁₁."""
    total = x[:10].sum(0) - 1
    return (x[10] - (x[:10] * y).sum(0), total, -total, *at_least(0, x[:10]))


POLYNOMIALS = (
    Record(
        name="KleniatiAdjiman2014Ex4",
        source="Kleniati, Adjiman (2014): Branch-and-sandwich, part II, example 4",
        kind="nonlinear",
        f=lambda x, y: -_squares(x) - _squares(y),
        g=_five,
        H=_five_above,
        h=lambda x, y: (*_both(y), x[0] - 0.2 - y[2] ** 2),
        start=((1,) * 5, (1,) * 5),
        optimum=-10.0,
        solution=((1, -1, -1, -1, -1), (-1, 1, -1, -1, -1)),
        status="best known",
    ),
    Record(
        name="MitsosBarton2006Ex325",
        source=MITSOS + "3.25",
        kind="nonlinear",
        f=lambda x, y: x[0] * y[0] + x[1] * y[0] ** 2 - x[0] * x[1] * y[2],
        g=lambda x, y: x[0] * y[0] ** 2 + x[1] * y[1] * y[2],
        H=lambda x, y: (*_both(x), 0.1 * y[0] * y[1] - x[0] ** 2, x[1] * y[0] ** 2),
        h=lambda x, y: (
            *_both(y),
            y[0] ** 2 - y[1] * y[2],
            y[1] ** 2 * y[2] - x[0] * y[0],
            0.1 - y[2] ** 2,
        ),
        start=((1, 1), (1, 1, 1)),
        optimum=-1.0,
        solution=((-1, -1), (-1, 1, 1)),
        status="best known",
    ),
    Record(
        name="MitsosBarton2006Ex326",
        source=MITSOS + "3.26",
        kind="nonlinear",
        f=lambda x, y: x[0] * y[0] + x[1] * y[1] ** 2 + x[0] * x[1] * y[2] ** 3,
        g=lambda x, y: x[0] * y[0] ** 2 + x[1] * y[1] ** 2 + (x[0] - x[1]) * y[2] ** 2,
        H=lambda x, y: (*_both(x), 0.1 - x[0] ** 2, 1.5 - _squares(y), _squares(y) - 2.5),
        h=lambda x, y: _both(y),
        start=((1, 1), (1, 1, 1)),
        optimum=-2.3535534,
        solution=((-1, -1), (1, 1, -0.7071068)),
    ),
    Record(
        name="MitsosBarton2006Ex327",
        source=MITSOS + "3.27",
        kind="nonlinear",
        f=lambda x, y: _squares(x) + _squares(y),
        g=_five,
        H=_five_above,
        h=_five_below,
        start=((1,) * 5, (1,) * 5),
        optimum=2.0,
        solution=((0, 0, 0, 0, 0), (-1, 0, -1, 0, 0)),
        status="best known",
    ),
    Record(
        name="MitsosBarton2006Ex328",
        source=MITSOS + "3.28",
        kind="nonlinear",
        f=lambda x, y: -_squares(x) - _squares(y),
        g=_five,
        H=_five_above,
        h=_five_below,
        start=((1,) * 5, (1,) * 5),
        optimum=-10.0,
        solution=((1, -1, -1, -1, -1), (-1, 1, -1, 1, -1)),
        status="best known",
    ),
    Record(
        name="NieWangYe2017Ex34",
        source=NIE + "3.4",
        kind="nonlinear",
        f=lambda x, y: x[0] + y[0] + y[1],
        g=lambda x, y: x[0] * (y[0] + y[1]),
        H=lambda x, y: (*at_least(2, x), *at_most(3, x)),
        h=lambda x, y: (_squares(y) ** 2 - y[0] ** 2 + y[1] ** 2, -y[0]),
        start=((1,), (1, 1)),
        optimum=2.0,
        solution=((2,), (0, 0)),
    ),
    Record(
        name="NieWangYe2017Ex52",
        source=NIE + "5.2",
        kind="nonlinear",
        f=lambda x, y: x[0] * y[0] + x[1] * y[1] + x[0] * x[1] * y[0] * y[1] * y[2],
        g=lambda x, y: x[0] * y[0] ** 2 + x[1] ** 2 * y[1] * y[2] - y[0] * y[2] ** 2,
        H=lambda x, y: (*_both(x), y[0] * y[1] - x[0] ** 2),
        h=lambda x, y: (1 - _squares(y), _squares(y) - 2),
        start=((1, 1), (1, 1, 1)),
        optimum=-1.7095092,
        solution=((-1, -1), (1.1097123, 0.3143331, -0.8183724)),
    ),
    Record(
        name="NieWangYe2017Ex54",
        source=NIE + "5.4",
        kind="nonlinear",
        f=lambda x, y: x[0] ** 2 * y[0] + x[1] * y[1] + x[2] * y[2] ** 2 + x[3] * y[3] ** 2,
        g=lambda x, y: y[0] ** 2 - y[1] * (x[0] + x[1]) - (y[2] + y[3]) * (x[2] + x[3]),
        H=lambda x, y: (_squares(x) - 1, y[0] * y[1] - x[0], y[2] * y[3] - x[2] ** 2),
        h=lambda x, y: (_squares(y) - 1, _squares(y[1:]) - y[0]),
        start=((1,) * 4, (1,) * 4),
        optimum=-0.4370160,
        solution=((0, 0, -0.7071067, -0.7071067), (0.6180340, 0, -0.555893, -0.555893)),
    ),
    Record(
        name="NieWangYe2017Ex57",
        source=NIE + "5.7",
        kind="nonlinear",
        f=lambda x, y: x[0] ** 2 * y[0] / 2 + x[1] * y[1] ** 2 - (x[0] + x[1] ** 2) * y[2],
        g=lambda x, y: x[1] * (y[0] * y[1] * y[2] + y[1] ** 2 - y[2] ** 3),
        H=lambda x, y: (*_both(x), x[0] ** 2 - x[0] - x[1] + y[0] ** 2 + y[1] ** 2),
        h=lambda x, y: (_squares(y) - x[0], 2 * y[1] * y[2] - 1),
        start=((1, 1), (1, 1, 1)),
        optimum=-2.0,
        solution=((1, 1), (0, 0, 1)),
        status="best known",
    ),
    Record(
        name="NieWangYe2017Ex58",
        source=NIE + "5.8",
        kind="nonlinear",
        f=lambda x, y: x.sum(0) * y.sum(0),
        g=lambda x, y: x[0] * y[0] + x[1] * y[1] + 0.1 * y[2] + 0.5 * y[3] - y[2] * y[3],
        H=lambda x, y: (_squares(x) - 1, y[2] ** 2 - x[3], y[1] * y[3] - x[0]),
        h=lambda x, y: (
            y[0] ** 2 + 2 * y[1] ** 2 + 3 * y[2] ** 2 + 4 * y[3] ** 2 - x[0] ** 2 - x[2] ** 2 - x[1] - x[3],
            y[1] * y[2] - y[0] * y[3],
        ),
        start=((0.5442, 0.4682, 0.4904, 0.4942), (-0.7792, -0.5034, -0.2871, -0.1855)),
        optimum=-3.4879573,
        solution=((0.513547, 0.50499, 0.4882049, 0.4928595), (-0.8346442, -0.4103684, -0.210591, -0.2887226)),
        status="best known",
    ),
    Record(
        name="NieWangYe2017Ex61",
        source=NIE + "6.1",
        kind="nonlinear",
        f=lambda x, y: y[0] ** 3 * (x[0] ** 2 - 3 * x[0] * x[1]) - y[0] ** 2 * y[1] + y[1] * x[1] ** 3,
        g=lambda x, y: y[0] * y[1] ** 2 - y[1] ** 3 - y[0] ** 2 * (x[1] - x[0] ** 2),
        H=lambda x, y: (*_both(x), -y[1] - y[0] * (1 - x[0] ** 2)),
        h=lambda x, y: (_squares(y) - 1,),
        start=((1, -1), (-1, 1)),
        optimum=-1.0219391,
        solution=((0.5712187, -1), (-0.1638388, 0.9864871)),
        status="best known",
    ),
    Record(
        name="RobustPortfolioP1",
        source="BOLIB, robust portfolio, problem 1",
        kind="nonlinear",
        f=lambda x, y: -x[10],
        g=lambda x, y: (x[:10] * y).sum(0) - x[10],
        H=_invested,
        h=_shares(grows=False),
        start=((1,) * 11, (1,) * 10),
        optimum=-1.15,
        solution=((*(0.1,) * 10, 1.15), (1.15,) * 10),
        status="best known",
    ),
    Record(
        name="RobustPortfolioP2",
        source="BOLIB, robust portfolio, problem 2",
        kind="nonlinear",
        f=lambda x, y: -x[10],
        g=lambda x, y: (x[:10] * y).sum(0) - x[10],
        H=_invested,
        h=_shares(grows=True),
        start=((1,) * 11, (1,) * 10),
        optimum=-1.15,
        solution=((*(0.1,) * 10, 1.15), (1.15,) * 10),
        status="best known",
    ),
)
"""f, g, h and H are polynomials, some also with exponentials."""
