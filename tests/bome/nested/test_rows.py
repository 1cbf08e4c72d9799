"""Linearised constraints: the step against SciPy, and what is kept of the Jacobian."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from bome.constraints import Sizes
from bome.nested.rows import Kept, Precision, arranged, projected
from bome.projections import Rows


def none(n: int) -> Rows:
    empty = torch.zeros(0, n, dtype=torch.float64)
    return Rows(empty, empty[:, 0], empty, empty[:, 0])


@pytest.mark.parametrize("seed", range(8))
def test_the_step_is_that_of_scipy(seed: int) -> None:
    """Of random rows some are doubled and some depend on each other; the point may be infeasible."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(5, 4))
    rows[3], rows[4] = rows[0], -2 * rows[1]
    room, grad, s = random.normal(size=5), random.normal(size=4), 0.7
    room[4] = -2 * room[1] + 1  # so that a point exists
    d, multipliers = projected(grad, rows, room, s)
    expected = minimize(
        lambda d: d @ d / (2 * s) + grad @ d, np.zeros(4), method="SLSQP", tol=1e-14,
        constraints={"type": "ineq", "fun": lambda d: room - rows @ d},
    )  # fmt: skip
    np.testing.assert_allclose(d, expected.x, atol=1e-6)
    np.testing.assert_allclose(d, -s * (grad + multipliers @ rows), atol=1e-8)
    assert (multipliers >= 0).all()
    assert abs(multipliers @ (room - rows @ d)) < 1e-8


def test_rows_without_entries_are_left_out() -> None:
    d, multipliers = projected(np.ones(2), np.zeros((1, 2)), np.array([-1.0]), 1.0)
    assert d.tolist() == [-1, -1]
    assert multipliers.tolist() == [0]


def test_kept_rows_predict_affine_functions() -> None:
    kept = Kept(np.zeros((2, 2)), np.zeros((2, 2)), np.full(2, np.nan))
    assert np.isnan(kept.predicted(np.ones(2), 2)).all()
    at = np.array([1.0, 2.0])
    kept = kept.renewed(np.array([1]), np.array([[3.0, -1.0]]), at, np.array([5.0]))
    assert kept.predicted(np.array([2.0, 0.0]), 2)[1] == 5 + 3 * 1 - 1 * -2


def test_equalities_are_two_inequalities_and_sets_are_known_rows() -> None:
    box = Rows(
        torch.eye(1).double(), torch.tensor([4.0]).double(), -torch.eye(1).double(), torch.tensor([1.0]).double()
    )
    layout, kept = arranged(Sizes(1, 1, 2, 1), none(2), box)
    assert layout.number.tolist() == [0, 1, 1, -1, -1, -1, 2, 3, 4, 4]
    assert layout.sign.tolist() == [1, 1, -1, 1, 1, 1, 1, 1, 1, -1]
    assert layout.inner == 6
    x = np.array([7.0, 8.0, 3.0])
    assert kept.predicted(x, 6)[3:].tolist() == [3 - 4, -3 - 1, 3 + 1]
    assert np.isnan(kept.value[:3]).all()


def test_float32_is_coarser() -> None:
    assert Precision.of(torch.float64) == Precision(1e-9, 1e-9, 1e-7)
    assert Precision.of(torch.float32).truth > 1e-6


def test_what_counts_as_no_violation_grows_with_the_point() -> None:
    """Rounding errors of constraints are relative to what goes into them."""
    precision = Precision.of(torch.float64)
    small, large = torch.tensor([0.5]), torch.tensor([-30.0])
    assert precision.allowed(small, small) == precision.feasible
    assert precision.allowed(small, large) == 30 * precision.feasible
