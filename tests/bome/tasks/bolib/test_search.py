"""Brute force against what is known in closed form."""

import math

import numpy as np
import pytest
import torch

from bome.tasks.bolib import RECORDS
from bome.tasks.bolib.record import Record, point
from bome.tasks.bolib.search import best_answer, inner_minimum, reach

BY_NAME = {record.name: record for record in RECORDS.values()}


@pytest.mark.parametrize(
    ("name", "x", "value", "y"),
    [
        ("MitsosBarton2006Ex315", (0.5,), 0.25 - 1 / 3, (1,)),  # not the local minimum at 0
        ("KleniatiAdjiman2014Ex3", (0.5,), -0.25, (1,)),
        ("FalkLiu1995", (0, 2), 0.5, (0.5, 1.5)),
        ("DempeLohse2011Ex31a", (-1, -2), -3, (1, 1)),
        ("Bard1984b", (4,), 0, (0,)),
        ("CandlerTownsley1982", (0, 0.9), 3.2, (0, 0.6, 0.4)),
        ("YeZhu2010Ex43", (3,), -2, (1,)),
    ],
)
def test_the_global_inner_minimum_is_found(name: str, x: tuple[float, ...], value: float, y: tuple[float, ...]) -> None:
    found = inner_minimum(BY_NAME[name], point(x))
    assert found.value == pytest.approx(value, abs=1e-6)
    np.testing.assert_allclose(found.minimisers[0], y, atol=1e-5)


def test_where_no_y_is_feasible_there_is_no_minimum() -> None:
    record, beyond = BY_NAME["Bard1984b"], point((9,))
    assert inner_minimum(record, beyond).value == math.inf
    assert best_answer(record, beyond) == (math.inf, None)


def test_just_outside_the_constraints_give_way_by_what_the_answer_takes() -> None:
    """At x = 7.2 only y = 1.6 is feasible."""
    record, x, y = BY_NAME["Bard1984b"], point((7.2 + 1e-6,)), point((1.6,))
    assert inner_minimum(record, x).value == math.inf
    assert inner_minimum(record, x, y).value == pytest.approx(1.6, abs=1e-4)


@pytest.mark.parametrize(
    ("name", "x", "f"),
    [
        ("MorganPatrone2006a", (0,), -1),  # every y is a minimiser; f wants 1
        ("MitsosBarton2006Ex317", (-0.25,), 0.1875),  # ±½
        ("DempeLohse2011Ex31a", (0, 0.5), -5.75),  # a whole edge
    ],
)
def test_of_several_minimisers_the_answer_is_the_best_for_f(name: str, x: tuple[float, ...], f: float) -> None:
    assert best_answer(BY_NAME[name], point(x))[0] == pytest.approx(f, abs=1e-4)


def test_outer_constraints_restrict_the_answer() -> None:
    """At x = 5 the inner solution y = 12 violates −2x + 3y ≤ 12."""
    assert best_answer(BY_NAME["MershaDempe2006Ex2"], point((5,))) == (math.inf, None)


def test_reach_is_that_of_the_feasible_points_or_ten_around_the_start() -> None:
    x, y = reach(BY_NAME["Bard1984b"])
    np.testing.assert_allclose([*x, *y], [(8 / 9, 7.2), (0, 32 / 9)], atol=1e-6)
    x, y = reach(BY_NAME["HatzEtal2013"])
    np.testing.assert_allclose([*x, *y], [(-9, 11), (0, 11), (0, 11)], atol=1e-6)


def test_a_minimum_at_which_nothing_else_is_feasible_is_found() -> None:
    record: Record = BY_NAME["LanWenShihLee2007"]
    x = torch.tensor([192 / 11], dtype=torch.float64)
    assert best_answer(record, x)[0] == pytest.approx(-936 / 11, abs=1e-5)
