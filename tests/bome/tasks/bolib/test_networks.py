"""Networks: flows, tolls, and what the best tolls bring by linear programming."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog

from bome.tasks.bolib.networks import NETWORKS
from bome.tasks.bolib.record import Record, point

BY_NAME = {record.name: record for record in NETWORKS}
TOLLS = [record for record in NETWORKS if record.name.startswith("Toll")]


def _cheapest(record: Record, x: tuple[float, ...]) -> float:
    """The least cost of a flow at these tolls, by linear programming."""
    v, n = point(x), len(record.start[1])
    units = [point((0,) * n), *(point(tuple(float(i == j) for i in range(n))) for j in range(n))]
    assert record.h is not None
    base, *sides = (np.array([float(c) for c in record.h(v, y)]) for y in units)
    costs = [float(record.g(v, y)) for y in units[1:]]
    return float(linprog(costs, A_ub=np.stack(sides, 1) - base[:, None], b_ub=-base, bounds=(0, None)).fun)


@pytest.mark.parametrize("record", TOLLS, ids=lambda record: record.name)
def test_travellers_take_a_cheapest_way(record: Record) -> None:
    x, y = map(point, record.solution)
    assert record.violation(x, y) <= 1e-12
    assert float(record.f(x, y)) == record.optimum
    assert float(record.g(x, y)) == pytest.approx(_cheapest(record, record.solution[0]))


@pytest.mark.parametrize("record", TOLLS, ids=lambda record: record.name)
def test_with_higher_tolls_they_would_leave(record: Record) -> None:
    """At the solution a little more on every link makes another way cheaper."""
    x = tuple(1.01 * toll + 0.01 for toll in record.solution[0])
    y = point(record.solution[1])
    assert float(record.g(point(x), y)) > _cheapest(record, x) + 1e-3


@pytest.mark.parametrize(
    ("name", "x", "y", "f", "g"),
    [
        ("NetworkDesignP1", (0,) * 5, (1,) * 5, 51 + 10 + 11 + 10 + 51, 50.5 + 5 + 10.5 + 5 + 50.5),
        ("NetworkDesignP2", (1,) * 5, (2,) * 5, 5 + 102 + 20 + 22 + 20 + 102, 101 + 10 + 21 + 10 + 101),
        ("TollSettingP1", (1, 2, 3), (1, 2, 3, 4, 5, 6, 7, 8), -3 - 8 - 24, 2 + 12 + 18 + 8 + 20 + 12 + 42 + 24),
        ("TollSettingP4", (1, 2), (1, 2, 3, 4), -5 - 6, 8 + 10 + 27 + 24),
        ("TollSettingP5", (1,), (1, 2, 3, 4), -5, 8 + 10 + 18 + 24),
    ],
)
def test_losses_have_the_values_computed_by_hand(
    name: str, x: tuple[float, ...], y: tuple[float, ...], f: float, g: float
) -> None:
    record = BY_NAME[name]
    assert float(record.f(point(x), point(y))) == pytest.approx(f, rel=1e-12)
    assert float(record.g(point(x), point(y))) == pytest.approx(g, rel=1e-12)


def test_tolls_count_ten_times_where_there_are_ten_travellers() -> None:
    x, y = point((1, 2, 3)), point(tuple(range(18)))
    assert [float(BY_NAME[name].f(x, y)) for name in ("TollSettingP2", "TollSettingP3")] == [
        -(0 + 1) - 2 * (2 + 3) - 3 * (4 + 5),
        -(0 + 10) - 2 * (2 + 30) - 3 * (4 + 50),
    ]


def test_the_network_carries_what_enters_it() -> None:
    """At the solution all six units take the middle way."""
    record = BY_NAME["NetworkDesignP2"]
    x, y = map(point, record.solution)
    assert record.violation(x, y) <= 1e-12
    assert record.violation(x, y + point((0, 1, 0, 0, 0))) == 1


def test_links_that_cost_more_leave_the_middle_closed() -> None:
    """NetworkDesignP1: a unit costs 50 + 20 + 20√10 by a side, 10 + 20 + 40√10 by the middle; −500 is built away."""
    record = BY_NAME["NetworkDesignP1"]
    x, y = map(point, record.solution)
    assert 70 + 20 * math.sqrt(10) < 30 + 40 * math.sqrt(10)
    assert record.optimum == pytest.approx(6 * (70 + 20 * math.sqrt(10)) - 500)
    assert float(record.f(x, y)) == pytest.approx(record.optimum, abs=1e-6)
