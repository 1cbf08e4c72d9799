"""Quadratic problems with constraints: values and solutions by hand."""

import pytest
import torch

from bome.tasks.bolib.quadratic import QUADRATIC
from bome.tasks.bolib.record import Record, point

BY_NAME = {record.name: record for record in QUADRATIC}


@pytest.mark.parametrize(
    ("name", "x", "y", "f", "g"),
    [
        ("AiyoshiShimizu1984Ex2", (1, 2), (3, 4), 2 + 4 - 9 - 12 - 60, 22**2 + 22**2),
        ("AnEtal2009", (1, 0), (0, 0), 935.74474 - 1.9, 0),
        ("AnEtal2009", (0, 1), (1, 0), 87.53654 - 1.1 + 121.96196 + 0.6, -18.21053 + 10.55102 + 6.575),
        ("Bard1988Ex1", (1,), (2,), 16 + 25, 1 - 3),
        ("Bard1988Ex2", (0, 0, 0, 0), (1, 2, 3, 4), 4 * -196 + 6 * -154, 9 + 121 + 32**2 + 4),
        ("Bard1991Ex1", (2,), (3, 4), 6, 14),
        ("BardBook1998", (1, 2), (3, 4), 22**2 + 22**2, 2 + 4 - 9 - 12 - 60),
        ("CalamaiVicente1994b", (1, 2, 3, 4), (1, 2), 0.5 + 2 + 4.5 + 2.5, 2.5 - 1 - 4),
        ("LamparielloSagratella2017Ex33", (1,), (2, 3), 26, 2),
        ("MuuQuy2003Ex1", (1,), (2, 3), 1 - 4 + 13, 4 + 4.5 + 6 - 4 + 6),
        ("MuuQuy2003Ex2", (1, 2), (3, 4, 5), 9 + 25 - 15 - 16 - 7 + 8, 9 + 8 + 12.5 + 12 - 6 + 12),
        ("ShimizuAiyoshi1981Ex1", (1,), (2,), 65, 625),
        ("SinhaMaloDeb2014TP6", (3,), (1, 2), 4 - 6 + 2, 4 + 9 + 3),
        ("SinhaMaloDeb2014TP8", (1, 2), (3, 4), 75**2, 22**2 + 22**2),
        ("WanWangLv2011", (1, 2), (3, 4, 5), (1 + 1 - 2 + 8) * (8 - 1 - 6 + 4 + 25), 6 - 4 + 5),
        ("Yezza1996Ex41", (1,), (2,), 4.5, 2 + 1 - 2),
    ],
)
def test_losses_have_the_values_computed_by_hand(
    name: str, x: tuple[float, ...], y: tuple[float, ...], f: float, g: float
) -> None:
    record = BY_NAME[name]
    assert float(record.f(point(x), point(y))) == pytest.approx(f, rel=1e-12, abs=1e-12)
    assert float(record.g(point(x), point(y))) == pytest.approx(g, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("record", QUADRATIC, ids=lambda record: record.name)
def test_third_differences_of_the_losses_vanish(record: Record) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.rand(len(z), generator=generator, dtype=torch.float64) for z in record.start)
    for formula in (record.f, record.g):
        values = [formula(k * x, k * y) for k in range(4)]
        size = max(1.0, *(float(value.abs()) for value in values))
        third = values[3] - 3 * values[2] + 3 * values[1] - values[0]
        assert float(third) / size == pytest.approx(0, abs=1e-12), record.name


def test_a_problem_and_itself_in_other_unknowns_have_the_same_losses() -> None:
    """CalamaiVicente1994c is 1994b with x turned and stretched, and y ten times as long."""
    plain, turned = BY_NAME["CalamaiVicente1994b"], BY_NAME["CalamaiVicente1994c"]
    to, of = (tuple(map(point, record.solution)) for record in (plain, turned))
    assert float(turned.f(*of)) == pytest.approx(float(plain.f(*to)))
    assert float(turned.g(*of)) == pytest.approx(float(plain.g(*to)))
    assert turned.h is not None
    assert plain.h is not None
    torch.testing.assert_close(torch.stack(turned.h(*of)), torch.stack(plain.h(*to)))
