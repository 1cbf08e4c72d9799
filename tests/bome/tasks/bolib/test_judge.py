"""The judge: what it calls solved, and what not."""

import math

import pytest

from bome.tasks.bolib import RECORDS
from bome.tasks.bolib.judge import error, is_solved, judge
from bome.tasks.bolib.record import Record, point

BY_NAME = {record.name: record for record in RECORDS.values()}


MANY = 8
"""Brute force takes seconds for so many unknowns of the inner problem."""


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(record, id=record.name, marks=[pytest.mark.slow] if len(record.start[1]) >= MANY else [])
        for record in RECORDS.values()
    ],
)
def test_each_known_solution_is_one(record: Record) -> None:
    """Feasible, a global minimiser of g, with the value that is recorded."""
    x, y = map(point, record.solution)
    found = judge(record, x, y)
    assert found.error <= 1e-6
    assert found.gap <= 1e-6
    assert found.violation <= 1e-7
    assert is_solved(record, x, y, tolerance=1e-6)


def test_f_must_be_right() -> None:
    record = BY_NAME["FalkLiu1995"]
    assert error(record, point((0.75, 0.75)), point((0.75, 0.75))) == 0
    assert not is_solved(record, point((1, 1)), point((1, 1)))  # feasible, but f = −2
    assert is_solved(record, point((0.8, 0.7)), point((0.8, 0.7)), tolerance=0.01)
    assert not is_solved(record, point((0.8, 0.7)), point((0.8, 0.7)), tolerance=1e-4)


def test_theta_must_be_a_global_minimiser() -> None:
    """At x = ½ the inner minimum of Ex315 is at y = 1; y = 0 is a local one, y = −½ has the right f but is none."""
    record = BY_NAME["MitsosBarton2006Ex315"]
    assert error(record, point((0.5,)), point((-0.5,))) == 0
    found = judge(record, point((0.5,)), point((-0.5,)))
    assert found.gap == pytest.approx(0.0625 + 0.125 / 3 + 1 / 12, abs=1e-6)
    assert not found.solved()


def test_constraints_must_hold() -> None:
    record = BY_NAME["Bard1984b"]
    assert is_solved(record, point((7.2005,)), point((1.5998,)))
    found = judge(record, point((7.21,)), point((1.58,)))
    assert found.violation > 1e-3
    assert not found.solved()


def test_what_is_not_finite_solves_nothing() -> None:
    record = BY_NAME["HatzEtal2013"]
    assert not is_solved(record, point((math.nan,)), point((0, 0)))
    assert not is_solved(record, point((math.inf,)), point((0, 0)))
