"""Where v and θ may be: shadows by closed forms and by SciPy, feasible points."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from bome import box
from bome.nested.search import sets_of
from bome.nested.sets import ByProjection, ByRows
from tests.support.nested import losses_of, quadratic, vector


def test_sets_alone_are_projections() -> None:
    sets = sets_of(losses_of(quadratic(box(-1, 1), box(0, 1))))
    assert isinstance(sets, ByProjection)
    shadow = sets.shadow(vector(3.0, 0.5), vector(-1.0, 2.0))
    assert (shadow.v.tolist(), shadow.over) == ([1, 0.5], 0)
    assert sets.feasible(shadow.v, vector(-1.0, 2.0)).tolist() == [0, 1]


def test_a_feasible_point_is_its_own_shadow() -> None:
    sets = sets_of(losses_of(quadratic(inner_constraints=lambda v, theta, b: theta - v)))
    shadow = sets.shadow(vector(1.0, 1.0), vector(0.5, 1.0))
    assert (shadow.v.tolist(), shadow.theta.tolist()) == ([1, 1], [0.5, 1])


def test_the_shadow_is_the_nearest_v_for_which_there_is_a_theta() -> None:
    """θ ≥ v and θ ≤ 1 allow v ≤ 1, however far off the θ is that one begins with."""

    def between(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return torch.cat([v - theta, theta - 1])

    sets = sets_of(losses_of(quadratic(inner_constraints=between)))
    shadow = sets.shadow(vector(3.0, 4.0), vector(1.0, 1.0))
    assert shadow.over < 1e-8
    assert shadow.v.tolist() == pytest.approx([1, 1], abs=0.01)


def test_a_bent_shadow_is_nearly_that_of_scipy() -> None:
    def disc(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return torch.stack([v.square().sum() + theta.square().sum() - 1, theta[0] - v[1]])

    losses = losses_of(quadratic(inner_constraints=disc))
    v, theta = vector(2.0, -1.0), vector(0.3, 0.2)
    shadow = sets_of(losses).shadow(v, theta)
    x = np.concatenate([v, theta])
    expected = minimize(
        lambda y: ((y - x)[:2] ** 2).sum() + ((y - x)[2:] ** 2).sum() / 10, x, method="SLSQP",
        constraints={"type": "ineq", "fun": lambda y: np.array([1 - y @ y, y[1] - y[2]])},
    )  # fmt: skip
    assert shadow.over < 1e-8
    np.testing.assert_allclose(shadow.v, expected.x[:2], atol=0.1)


def test_what_has_no_point_stays_violated() -> None:
    def never(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return torch.stack([theta[0] - 1, 2 - theta[0]])

    assert sets_of(losses_of(quadratic(inner_constraints=never))).shadow(vector(0.0, 0.0), vector(0.0, 0.0)).over > 0.4


def test_a_feasible_theta_leaves_v_where_it_is() -> None:
    sets = sets_of(losses_of(quadratic(project_theta=box(-1, 1), inner_constraints=lambda v, theta, b: v - theta)))
    assert isinstance(sets, ByRows)
    found = sets.feasible(vector(0.5, 0.2), vector(-3.0, 3.0))
    assert found.tolist() == pytest.approx([0.5, 1.0])
