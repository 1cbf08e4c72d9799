"""Linear problems: every loss and constraint is affine, and solutions are at vertices."""

import pytest
import torch

from bome.tasks.bolib.linear import LINEAR
from bome.tasks.bolib.record import Record, point


@pytest.mark.parametrize("record", LINEAR, ids=lambda record: record.name)
def test_losses_and_constraints_are_affine(record: Record) -> None:
    generator = torch.Generator().manual_seed(0)
    (x, p), (y, q) = (
        [torch.rand(len(z), generator=generator, dtype=torch.float64) for _ in "ab"] for z in record.start
    )
    for formula in (
        record.f,
        record.g,
        lambda x, y: torch.stack(record.inner_excess(x, y)),
        lambda x, y: torch.stack((*record.outer_excess(x, y), x[0])),
    ):
        torch.testing.assert_close(formula((x + p) / 2, (y + q) / 2), (formula(x, y) + formula(p, q)) / 2)


@pytest.mark.parametrize("record", LINEAR, ids=lambda record: record.name)
def test_as_many_constraints_as_variables_hold_with_equality_at_the_solution(record: Record) -> None:
    x, y = map(point, record.solution)
    active = [c for c in (*record.outer_excess(x, y), *record.inner_excess(x, y)) if abs(float(c)) < 1e-9]
    assert len(active) >= len(x) + len(y)


def test_losses_have_the_values_computed_by_hand() -> None:
    record = next(record for record in LINEAR if record.name == "CandlerTownsley1982")
    x, y = point((1, 2)), point((3, 4, 5))
    assert float(record.f(x, y)) == -8 - 8 + 12 - 160 - 20
    assert float(record.g(x, y)) == 1 + 4 + 3 + 4 + 10
    assert record.h is not None
    assert [float(c) for c in record.h(x, y)] == [5, 2 - 3 + 8 - 2.5 - 1, 4 + 6 - 4 - 2.5 - 1, -3, -4, -5]
