"""The curvature of g and the step size that follows, on quadratics."""

import math

import pytest
import torch
from torch import Tensor

from bome.arms.curvature import Curvature, CurvedDescent

H = torch.diag(torch.tensor([1.0, 4.0], dtype=torch.float64))


def seen(theta: Tensor, curvature: Curvature) -> float:
    curvature.see((theta,), (H @ theta,), lambda there: (H @ there[0],))
    return curvature.L


def test_it_is_that_along_the_gradient() -> None:
    """d = Hθ: ‖Hd‖ / ‖d‖ = ‖H²θ‖ / ‖Hθ‖, here √(1 + 4⁴) / √(1 + 4²)."""
    theta = torch.ones(2, dtype=torch.float64)
    assert seen(theta, Curvature()) == pytest.approx(math.sqrt((1 + 4**4) / (1 + 4**2)))


def test_the_largest_counts_and_fades() -> None:
    curvature = Curvature()
    assert seen(torch.tensor([0.0, 1.0]).double(), curvature) == pytest.approx(4)
    assert seen(torch.tensor([1.0, 0.0]).double(), curvature) == pytest.approx(4 * 0.99)
    assert curvature.alpha == pytest.approx(1.5 / 3.96)
    curvature.least = 6
    assert curvature.alpha == pytest.approx(0.25)
    curvature.fixed = 0.7
    assert curvature.alpha == 0.7


@pytest.mark.parametrize("slope", [0.0, math.nan, math.inf])
def test_a_gradient_that_tells_nothing_changes_nothing(slope: float) -> None:
    curvature = Curvature(L=2.0)
    d = torch.full((2,), slope, dtype=torch.float64)
    curvature.see((torch.ones(2).double(),), (d,), lambda there: (d,))
    assert curvature.L == 2.0


def test_theta_at_zero_can_be_looked_at() -> None:
    curvature = Curvature()
    curvature.see((torch.zeros(2).double(),), (torch.tensor([0.0, 8.0]).double(),), lambda t: (H @ (t[0] + 2),))
    assert 0 < curvature.L < math.inf


def descended(descent: CurvedDescent, steps: int) -> tuple[Tensor, list[Tensor]]:
    """θ after some steps on ½ θᵀHθ, and where g was looked at."""
    theta, places = torch.tensor([0.0, 1.0], dtype=torch.float64), list[Tensor]()

    def look() -> tuple[Tensor, tuple[Tensor, ...]]:
        places.append(theta.clone())
        return theta @ H @ theta / 2, (H @ theta,)

    buffers = descent.start((theta,))
    for _ in range(steps):
        buffers = descent.step_((theta,), look, buffers)
    return theta, places


def test_a_descent_follows_its_curvature_and_leaves_no_trace_of_its_looks() -> None:
    """Along e_2: α = 1.5 / 4, so that θ is multiplied by 1 − 1.5 = −½ in each step."""
    theta, places = descended(CurvedDescent(3), 3)
    torch.testing.assert_close(theta, torch.tensor([0.0, -0.125]).double())
    torch.testing.assert_close(torch.stack(places[::2])[:, 1], torch.tensor([1.0, -0.5, 0.25]).double())
    torch.testing.assert_close(places[1][1], torch.tensor(1.01).double())


def test_looks_are_made_in_the_first_steps_and_now_and_then() -> None:
    assert len(descended(CurvedDescent(41), 41)[1]) == 41 + 5 + 2
    assert len(descended(CurvedDescent(41, Curvature(fixed=0.1)), 41)[1]) == 41
    assert CurvedDescent(41).with_steps(7).steps == 7


def test_it_can_be_ended_from_outside() -> None:
    def watch() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        descended(CurvedDescent(3, watch=watch), 3)
