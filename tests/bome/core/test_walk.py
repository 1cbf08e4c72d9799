"""A walk: it ends at the minimum under constraints, takes no step that rises, and is not lost where f is not finite."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from bome.core.walk import Seen, Walk, begin

H = torch.tensor([[4.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 0.2]], dtype=torch.float64)
B = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)


def seen(x: Tensor) -> Seen:
    """½xᵀHx − bᵀx under ‖x‖² ≤ 4 and x₀ + x₁ ≥ 1."""
    f, c = 0.5 * x @ H @ x - B @ x, torch.stack([x @ x - 4, 1 - x[0] - x[1]])
    rows = torch.stack([2 * x, torch.tensor([-1.0, -1.0, 0.0], dtype=x.dtype)])
    return Seen(x, float(f), H @ x - B, c.numpy(), rows)


def walked(steps: int) -> Walk:
    limits, share = np.zeros(2), np.ones(2)
    walk = begin(seen(torch.tensor([3.0, 3.0, 3.0], dtype=torch.float64)), limits, share, 0.1)
    for _ in range(steps):
        here = seen(walk.ahead)
        walk = walk.on(here, limits, share) if walk.helps(here, limits) else walk.back(here.x)
    return walk


def test_it_ends_at_the_minimum_that_scipy_finds() -> None:
    walk = walked(100)
    found = minimize(
        lambda x: 0.5 * x @ H.numpy() @ x - B.numpy() @ x,
        np.ones(3),
        constraints=[
            {"type": "ineq", "fun": lambda x: 4 - x @ x},
            {"type": "ineq", "fun": lambda x: x[0] + x[1] - 1},
        ],
        tol=1e-12,
    )
    np.testing.assert_allclose(walk.x.numpy(), found.x, atol=1e-5)
    assert (walk.lam > 0).all()
    assert float(walk.slope.norm()) < 1e-4


def test_its_first_step_is_the_gradient_under_the_linearised_constraints() -> None:
    """From (0, 1.5, 0) with s = 0.1: x₀ + x₁ ≥ 1 is not reached, nor the ball."""
    start = seen(torch.tensor([0.0, 1.5, 0.0], dtype=torch.float64))
    walk = begin(start, np.zeros(2), np.ones(2), 0.01)
    torch.testing.assert_close(walk.ahead, start.x - 0.01 * start.grad)
    assert walk.lam.tolist() == [0, 0]


def test_a_step_is_no_longer_than_the_radius() -> None:
    walk = begin(seen(torch.tensor([0.0, 1.5, 0.0], dtype=torch.float64)), np.zeros(2), np.ones(2), 100.0)
    assert float((walk.ahead - walk.x).norm()) == pytest.approx(walk.radius) == pytest.approx(0.75)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e3])
def test_what_rises_is_stepped_back_from(bad: float) -> None:
    walk = walked(3)
    here = seen(walk.ahead)._replace(f=bad)
    assert not walk.helps(here, np.zeros(2))
    back = walk.back(here.x)
    torch.testing.assert_close(back.ahead - walk.x, 0.4 * (here.x - walk.x))
    assert back.radius == pytest.approx(0.4 * float((here.x - walk.x).norm()))
    assert back.x is walk.x


def test_what_violates_a_constraint_is_stepped_back_from_unless_the_limit_allows_it() -> None:
    walk = walked(20)
    here = seen(walk.x)
    over = here._replace(c=here.c + np.array([5.0, 0.0]))
    assert not walk.helps(over, np.zeros(2))
    assert walk.helps(over, np.array([6.0, 0.0]))


def test_step_sizes_follow_barzilai_and_borwein() -> None:
    """Without constraints, ⟨Δx, Δx⟩/⟨Δx, HΔx⟩."""
    none, rows = np.zeros(0), torch.zeros(0, 3, dtype=torch.float64)

    def free(x: Tensor) -> Seen:
        return Seen(x, float(0.5 * x @ H @ x), H @ x, none, rows)

    x, y = (torch.tensor(z, dtype=torch.float64) for z in ([1.0, 1.0, 1.0], [0.9, 0.8, 1.0]))
    walk = begin(free(x), none, none, 0.1).on(free(y), none, none)
    assert walk.s == pytest.approx(float((y - x) @ (y - x) / ((y - x) @ H @ (y - x))))


def test_after_five_tries_a_point_is_taken_and_what_was_known_is_forgotten() -> None:
    none = np.zeros(2)
    walk = walked(3)
    length, x = float((walk.ahead - walk.x).norm()), walk.x
    for tries in range(5):
        here = seen(walk.ahead)._replace(f=1e3)
        assert walk.tries == tries
        assert not walk.helps(here, none)
        walk = walk.back(here.x)
    here = seen(walk.ahead)._replace(f=1e3)
    assert walk.helps(here, none)
    assert not walk.helps(here._replace(f=float("nan")), none)
    walk = walk.on(here, none, np.ones(2))
    assert walk.x is here.x
    assert walk.x is not x
    assert walk.past[:, 0].tolist() == [1e3] * 5
    assert walk.radius == pytest.approx(0.4 * length)
    assert walk.tries == 0
