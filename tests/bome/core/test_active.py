"""The active rows of a projection on linear constraints."""

import numpy as np
import torch
from torch import Tensor

from bome.core.active import ActiveRows


def matrix(x: Tensor, rows: Tensor, limits: Tensor, equalities: int) -> Tensor:
    found: Tensor = ActiveRows.apply(x, rows, limits, equalities)  # type: ignore[no-untyped-call]
    return found


def test_it_is_the_pseudo_inverse_of_the_rows_that_hold_with_equality() -> None:
    """x₁ ≤ 0, x₂ ≤ 0 and x₁ + x₂ = 1 from (2, 0.5): the equality, and of the others x₁ ≤ 0 alone."""
    rows = torch.tensor([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    limits = torch.tensor([1.0, 0.0, 5.0], dtype=torch.float64)
    found = matrix(torch.tensor([2.0, 0.5], dtype=torch.float64), rows, limits, 1)
    np.testing.assert_allclose(found[:, :2], np.linalg.pinv(rows[:2].numpy()), atol=1e-12)
    assert not found[:, 2].any()


def test_inside_no_row_is_active() -> None:
    rows, limits = torch.eye(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    assert not matrix(torch.zeros(2, dtype=torch.float64), rows, limits, 0).any()
