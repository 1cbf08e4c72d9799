"""Networks of BOLIB: flows that choose cheap ways, and a leader who sets tolls or builds links."""

import math

from torch import Tensor

from bome.tasks.bolib.record import Formula, Formulas, Record, at_least


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


def _equal(*values: Tensor) -> tuple[Tensor, ...]:
    """The constraints that values are 0, as inequalities."""
    return (*values, *(-value for value in values))


def _two_ways(y: Tensor) -> tuple[Tensor, ...]:
    """Each of two travellers takes a free way or one with tolls."""
    return (*_equal(y[0] + y[1] - 1, y[2] + y[3] - 1), *at_least(0, y))


def _four_travellers(scale: float) -> Formulas:
    """Tolls are on the first six links; what flows into each node and not out of it is 0."""

    def constraints(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        even = scale * y
        return (
            *_equal(*(y[i] + y[i + 1] + y[i + 2] - 1 for i in (6, 9, 12, 15))),
            *_equal(
                y[0] + y[4] - y[6] + y[12],
                even[1] + even[5] - y[9] + y[15],
                y[2] - y[0] - y[7] + y[13],
                even[3] - even[1] - y[10] + y[16],
                y[14] - y[4] - y[8] - y[2],
                y[17] - even[5] - y[11] - even[3],
            ),
            *at_least(0, y),
        )

    return constraints


def _tolled(x: Tensor, y: Tensor, scale: float) -> Tensor:
    """What the tolls bring."""
    return (x * (y[0:6:2] + scale * y[1:6:2])).sum(0)


def _lengths(y: Tensor) -> Tensor:
    """What the links without tolls cost."""
    costs = (5, 7, 14, 7, 2, 4, 29, 20, 12, 8, 5, 2)
    return sum((cost * y[6 + i] for i, cost in enumerate(costs)), start=y[0] * 0)


def _toll_setting(name: str, scale: float, correction: str = "") -> Record:
    return Record(
        name=f"TollSetting{name}",
        source=f"BOLIB, toll setting, problem {name[1:]}",
        kind="quadratic",
        f=lambda x, y: -_tolled(x, y, scale),
        g=lambda x, y: 2 * _tolled(x, y, scale) + _lengths(y),
        H=lambda x, y: at_least(0, x),
        h=_four_travellers(scale),
        start=((0, 0, 0), (0, 0, 0, 10, 1, 0, 1, 0, 0, 0, 10, 0, 0, 0, 1, 0, 0, 10)),
        optimum=-4.5,
        solution=((1, 3.5, 4.5), (0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 1)),
        status="best known",
        correction=correction,
    )


NETWORKS = (
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
        name="NetworkDesignP1",
        source="BOLIB, network design, problem 1",
        kind="nonlinear",
        f=lambda x, y: 100 * x.sum(0) + _travel(1.0)(x, y),
        g=_travel(0.5),
        H=lambda x, y: at_least(-1, x),
        h=lambda x, y: (*_equal(*_balance(y)), *at_least(0, y)),
        start=((0,) * 5, (0,) * 5),
        optimum=120 * math.sqrt(10) - 80,
        solution=((-0.7, 0.3 * math.sqrt(10) - 1, -1 + 1e-9, 0.3 * math.sqrt(10) - 1, -0.7), (3, 3, 0, 3, 3)),
        status="best known",
        correction="BOLIB prints 300.5; the infimum is 120√10 − 80 = 299.473, in the limit x₃ → −1",
    ),
    Record(
        name="TollSettingP1",
        source="BOLIB, toll setting, problem 1",
        kind="quadratic",
        f=lambda x, y: -x[0] * y[2] - x[1] * y[3] - x[2] * y[7],
        g=lambda x, y: (
            2 * y[0] + 6 * y[1] + (x[0] + 5) * y[2] + x[1] * y[3] + 4 * y[4] + 2 * y[5] + 6 * y[6] + x[2] * y[7]
        ),
        H=lambda x, y: at_least(0, x),
        h=lambda x, y: (
            *_equal(
                y[0] + y[1] + y[2] - 1,
                y[3] - y[0] + y[4],
                y[5] - y[3] - y[1] + y[6],
                y[7] - y[5] - y[4],
                y[2] + y[6] + y[7] - 1,
            ),
            *at_least(0, y),
        ),
        start=((0, 5, 5), (0, 1, 0, 0, 0, 1, 0, 0)),
        optimum=-7.0,
        solution=((7, 4, 6), (0, 0, 1, 0, 0, 0, 0, 0)),
        status="best known",
    ),
    _toll_setting("P2", 1.0),
    _toll_setting("P3", 10.0, "BOLIB prints −3.5; the true value is −4.5, with the tolls of problem 2"),
    Record(
        name="TollSettingP4",
        source="BOLIB, toll setting, problem 4",
        kind="quadratic",
        f=lambda x, y: -x[0] * (y[1] + y[2]) - x[1] * y[2],
        g=lambda x, y: 8 * y[0] + (2 * x[0] + 3) * y[1] + (2 * x[0] + 2 * x[1] + 3) * y[2] + 6 * y[3],
        h=lambda x, y: _two_ways(y),
        start=((1, 1), (1, 1, 1, 1)),
        optimum=-4.0,
        solution=((2.5, -1), (0, 1, 1, 0)),
        status="best known",
    ),
    Record(
        name="TollSettingP5",
        source="BOLIB, toll setting, problem 5",
        kind="quadratic",
        f=lambda x, y: -x[0] * (y[1] + y[2]),
        g=lambda x, y: 8 * y[0] + (2 * x[0] + 3) * y[1] + (2 * x[0] + 4) * y[2] + 6 * y[3],
        h=lambda x, y: _two_ways(y),
        start=((1,), (1, 1, 1, 1)),
        optimum=-2.5,
        solution=((2.5,), (0, 1, 0, 1)),
        status="best known",
    ),
)
"""Flows in networks."""
