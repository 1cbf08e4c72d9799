"""Records: groups, and how far points are beyond sets and constraints."""

from dataclasses import replace

import pytest
import torch

from bome.projections import box, polyhedron
from bome.tasks.bolib import RECORDS
from bome.tasks.bolib.record import Record, at_least, at_most, point

PLAIN = Record("A", "nobody", "free", lambda x, y: x[0], lambda x, y: y[0], ((0,), (0, 0)), 0.0, ((0,), (0, 0)))


def test_a_point_beyond_a_set_or_a_constraint_violates_it_by_its_distance() -> None:
    x, y = point((3,)), point((1, -2))
    assert PLAIN.violation(x, y) == 0
    assert replace(PLAIN, x_set=box(0, 1)).violation(x, y) == 2
    assert replace(PLAIN, y_set=box(point((1, -1)), torch.inf)).violation(x, y) == 1
    assert replace(PLAIN, y_set=polyhedron(((3, 4),), (-10,))).violation(x, y) == pytest.approx(1)  # 3 − 8 + 10 over 5
    assert replace(PLAIN, h=lambda x, y: (x[0] + y[1] - 0.5,)).violation(x, y) == 0.5
    assert replace(PLAIN, H=lambda x, y: at_most(-1, y)).violation(x, y) == 2
    assert replace(PLAIN, H=lambda x, y: at_least(-1, y)).violation(x, y) == 1


def test_a_fixed_entry_must_have_its_value() -> None:
    fixed = replace(PLAIN, x_set=box(1, 1))
    assert [fixed.violation(point((value,)), point((0, 0))) for value in (0.5, 1.0, 1.5)] == [0.5, 0, 0.5]


def test_groups_are_by_what_a_solver_has_to_handle() -> None:
    groups = {record.name: record.group for record in RECORDS.values()}
    assert groups["HenrionSurowiec2011"] == "free"
    assert groups["FalkLiu1995"] == groups["MitsosBarton2006Ex34"] == "box"
    assert groups["Outrata1990Ex1b"] == "polyhedron"
    assert groups["Bard1984b"] == groups["YeZhu2010Ex43"] == "constrained"


@pytest.mark.parametrize("record", RECORDS.values(), ids=lambda record: record.name)
def test_formulas_take_many_points_at_once(record: Record) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.rand(len(z), 3, generator=generator, dtype=torch.float64) - 0.5 for z in record.start)
    for formula in (record.f, record.g):
        each = torch.stack([formula(x[:, i], y[:, i]) for i in range(3)])
        torch.testing.assert_close(formula(x, y).expand(3), each)
    for constraints in (record.inner_excess, record.outer_excess):
        single = [
            torch.stack(values) for values in zip(*(constraints(x[:, i], y[:, i]) for i in range(3)), strict=True)
        ]
        for many, one in zip(constraints(x, y), single, strict=True):
            torch.testing.assert_close(many.expand(3), one)
