"""Linearised constraints: against values and rows by hand, and what is computed again."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bome import Batches, Problem
from bome.core.trees import Pair, joined
from bome.oracles import Oracle
from bome.oracles.linearised import linearised
from tests.support.samples import ORACLES, toy

KINDS = pytest.mark.parametrize("kind", ORACLES)


def bent(**options: Any) -> Problem:
    """h = (v₀ − θ₀ − 1, θ₁² − v₂), an inner equality θ₀ + θ₁ = 1, and H = v₀ + v₁ − 2."""
    return toy(
        inner_constraints=lambda v, theta, batch: [v[0] - theta[0] - 1, theta[1] ** 2 - v[2]],
        inner_equalities=lambda v, theta, batch: theta.sum() - 1,
        outer_constraints=lambda v, theta, batch: v[0] + v[1] - 2,
        **options,
    )


def by_hand(point: Pair) -> tuple[Tensor, Tensor]:
    """c, with the equality twice, and its rows by (v, θ)."""
    (v,), (theta,) = point
    c = torch.stack([v[0] - theta[0] - 1, theta[1] ** 2 - v[2], theta.sum() - 1, 1 - theta.sum(), v[0] + v[1] - 2])
    t = 2 * float(theta[1])
    rows = [[1, 0, 0, -1, 0], [0, 0, -1, 0, t], [0, 0, 0, 1, 1], [0, 0, 0, -1, -1], [1, 1, 0, 0, 0]]
    return c, torch.tensor(rows, dtype=c.dtype)


@KINDS
def test_values_and_rows_are_those_by_hand_and_only_a_bent_row_is_computed_again(kind: type[Oracle]) -> None:
    oracle, kept = kind(bent()), None
    expected = {"constraints": 0, "rows": 0}
    for shift, rows in ((0.0, 4), (0.3, 1), (0.3, 0), (-0.2, 1)):
        point = Pair(*(tuple(x + shift for x in leaves) for leaves in oracle.problem.point))
        g = oracle.inner(*point, None)
        found = linearised(oracle, point, Batches(), "both", g, kept)
        c, jacobian = by_hand(point)
        np.testing.assert_allclose(found.values, c.numpy(), atol=1e-14)
        torch.testing.assert_close(found.rows, jacobian)
        np.testing.assert_allclose(found.offset, c.numpy() - (jacobian @ joined(point)).numpy(), atol=1e-12)
        assert found.inner == 4
        expected["rows"] += rows
        assert {name: oracle.counts[name] for name in expected} == expected
        kept = found.rows, found.offset


@KINDS
def test_those_of_the_inner_problem_come_first_and_alone(kind: type[Oracle]) -> None:
    oracle = kind(bent())
    point = oracle.problem.point
    found = linearised(oracle, point, Batches(), "inner", oracle.inner(*point, None), None)
    c, jacobian = by_hand(point)
    np.testing.assert_allclose(found.values, c.numpy()[:4], atol=1e-14)
    torch.testing.assert_close(found.rows, jacobian[:4])


def test_without_constraints_there_are_no_rows() -> None:
    oracle = ORACLES[0](toy())
    point = oracle.problem.point
    found = linearised(oracle, point, Batches(), "both", oracle.inner(*point, None), None)
    assert found.rows.shape == (0, len(joined(point)))
    assert found.values.shape == found.offset.shape == (0,)


def test_where_a_value_is_not_finite_no_row_is_asked_for() -> None:
    oracle = ORACLES[0](toy(inner_constraints=lambda v, theta, batch: (v[0] + 10 - 20 * (v[0] < -5)).log() - theta))
    point = oracle.problem.point
    kept = linearised(oracle, point, Batches(), "both", oracle.inner(*point, None), None)
    away = Pair((point.v[0] - 100,), point.theta)
    rows = oracle.counts["rows"]
    found = linearised(oracle, away, Batches(), "both", oracle.inner(*away, None), (kept.rows, kept.offset))
    assert np.isnan(found.values).all()
    assert oracle.counts["rows"] == rows
    torch.testing.assert_close(found.rows, kept.rows)
