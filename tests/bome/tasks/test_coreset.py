"""The coreset: its losses, its starts, and that its optimum is the projection onto a convex hull."""

from functools import partial

import numpy as np
import pytest
import scipy.optimize
import torch
from torch import Tensor

from bome.core.trees import Pair
from bome.tasks import Task, coreset
from bome.testing import check_task
from tests.support.toys import VARIANTS, loss, tensor


@pytest.mark.parametrize("variant", VARIANTS["coreset"])
def test_every_variant_passes_the_battery(variant: str) -> None:
    check_task(partial(coreset, variant=variant))


@pytest.mark.parametrize(
    ("task", "v", "theta", "f", "g"),
    [
        # σ = ¼ each: Xᵀσ = (−¼, 1); f = 0.1 (9 + 25), g = 1/16 + 4.
        (coreset(), tensor(0.0, 0.0, 0.0, 0.0), tensor(0.0, 3.0), 3.4, 4.0625),
        # With the printed x4, Xᵀσ = (−¼, 2): g = 1/16 + 1.
        (coreset("paper"), tensor(0.0, 0.0, 0.0, 0.0), tensor(0.0, 3.0), 34.0, 1.0625),
    ],
)
def test_losses_have_the_values_computed_by_hand(task: Task, v: Tensor, theta: Tensor, f: float, g: float) -> None:
    assert loss(task, "f", v, theta) == pytest.approx(f, rel=1e-14)
    assert loss(task, "g", v, theta) == pytest.approx(g, rel=1e-14)


@pytest.mark.parametrize(("variant", "x4"), [("code", (-3, -2)), ("paper", (-3, 2))])
def test_the_optimum_of_the_coreset_is_the_projection_onto_the_convex_hull(
    variant: str, x4: tuple[float, float]
) -> None:
    """The nearest point of the hull to x0 by a solver that knows nothing of the softmax: weights in the simplex."""
    points, x0 = np.array([(1, 3), (3, 1), (-2, 2), x4]), np.array([3.0, -2.0])
    found = scipy.optimize.minimize(
        lambda w: np.sum((w @ points - x0) ** 2),
        np.full(4, 0.25),
        bounds=[(0, 1)] * 4,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-15},
    )
    task = coreset(variant)
    assert task.optimum is not None
    nearest = torch.from_numpy(found.x @ points)
    assert task.optimum.distance(Pair((torch.zeros(4),), (nearest,))) <= 1e-6
    assert task.optimum.f == pytest.approx((0.1 if variant == "code" else 1.0) * found.fun, rel=1e-6)


@pytest.mark.parametrize(
    ("variant", "start", "theta"),
    [
        ("code", "a", (0.0, 3.0)),
        ("code", "b", (-3.0, 1.0)),
        ("code", "c", (3.5, -1.0)),
        ("paper", "c", (3.5, 1.0)),
    ],
)
def test_the_coreset_starts_where_the_authors_did(variant: str, start: str, theta: tuple[float, float]) -> None:
    v_0, theta_0 = coreset(variant, start).problem.point
    assert v_0[0].tolist() == [0, 0, 0, 0]
    assert theta_0[0].tolist() == list(theta)
