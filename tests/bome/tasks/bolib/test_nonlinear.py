"""Nonlinear problems with affine constraints: values by hand."""

import pytest
import torch

from bome.tasks.bolib.nonlinear import NONLINEAR
from bome.tasks.bolib.record import Record, point

BY_NAME = {record.name: record for record in NONLINEAR}


@pytest.mark.parametrize(
    ("name", "x", "y", "f", "g"),
    [
        ("CalveteGale1999P1", (1, 2), (3, 1, 0), -8 - 8 + 12 - 40, (1 + 3 + 6 - 1) / (6 + 2 + 3 + 1)),
        ("Colson2002BIPA1", (1,), (2,), 9**3 + 8**3, 10**4),
        ("Colson2002BIPA2", (2,), (1,), 9 + 9, 8 - 3),
        ("Colson2002BIPA3", (1,), (1,), 4**4 + 3**4, 1 + 1 + 2 + 1 + 2 + 6),
        ("Colson2002BIPA4", (2,), (3,), 4 + 49, 8 + 54 + 2 - 6 - 4),
        ("GumusFloudas2001Ex1", (1,), (2,), 16 + 36, 17**4),
        ("IshizukaAiyoshi1992a", (2,), (3, 4), 32, 3),
        ("MitsosBarton2006Ex38", (0,), (3,), 9, 3),
        ("MitsosBarton2006Ex39", (4,), (2,), 4, 8),
        ("Vogel2012", (4,), (2,), 9, 2),
        ("YeZhu2010Ex42", (4,), (2,), 13, 2),
        ("YeZhu2010Ex43", (1.5,), (2,), 1, 2),
    ],
)
def test_losses_have_the_values_computed_by_hand(
    name: str, x: tuple[float, ...], y: tuple[float, ...], f: float, g: float
) -> None:
    record = BY_NAME[name]
    assert float(record.f(point(x), point(y))) == pytest.approx(f, rel=1e-12, abs=1e-12)
    assert float(record.g(point(x), point(y))) == pytest.approx(g, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("record", NONLINEAR, ids=lambda record: record.name)
def test_constraints_are_affine(record: Record) -> None:
    generator = torch.Generator().manual_seed(0)
    (x, p), (y, q) = (
        [torch.rand(len(z), generator=generator, dtype=torch.float64) for _ in "ab"] for z in record.start
    )

    def all_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.stack((*record.inner_excess(x, y), *record.outer_excess(x, y)))

    torch.testing.assert_close(all_of((x + p) / 2, (y + q) / 2), (all_of(x, y) + all_of(p, q)) / 2)


def test_the_inner_loss_of_one_vanishes_for_all_y_at_a_single_x() -> None:
    """MitsosBarton2006Ex38: g = (x + eˣ) y, and only where x + eˣ = 0 can y be 0."""
    record = BY_NAME["MitsosBarton2006Ex38"]
    (x,) = record.solution[0]
    assert float(record.g(point((x,)), point((1,)))) == pytest.approx(0, abs=1e-6)
