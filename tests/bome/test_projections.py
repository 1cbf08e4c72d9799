"""Projections give the nearest point of their set, for every dtype and scale."""

import numpy as np
import pytest
import scipy.optimize
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bome import ball, box, nonnegative, simplex
from bome._typing import Projection

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
RULES: dict[str, Projection] = {
    "box": box(-0.5, 1),
    "nonnegative": nonnegative(),
    "ball": ball(2),
    "simplex": simplex(),
}


def _random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return (3 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)).to(dtype)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_projection_keeps_shape_and_dtype_and_leaves_its_argument(name: str, dtype: torch.dtype) -> None:
    x = _random(4, 5, dtype=dtype)
    before = x.clone()
    y = RULES[name](x)
    assert y.shape == x.shape
    assert y.dtype == dtype
    assert torch.equal(x, before)


@pytest.mark.parametrize("name", RULES)
def test_projecting_twice_changes_nothing_more(name: str) -> None:
    y = RULES[name](_random(6))
    torch.testing.assert_close(RULES[name](y), y, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("name", RULES)
def test_no_point_of_the_set_is_nearer(name: str) -> None:
    """The projection y of x satisfies ⟨x − y, z − y⟩ ≤ 0 for every z of the set; here for 500 of them."""
    x = _random(6, seed=1)
    y = RULES[name](x)
    for seed in range(500):
        z = RULES[name](_random(6, seed=seed + 2))
        assert float((x - y) @ (z - y)) <= 1e-12


def test_points_of_the_set_stay_where_they_are() -> None:
    inside = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    for rule in RULES.values():
        torch.testing.assert_close(rule(inside), inside, rtol=0, atol=1e-16)


def test_the_simplex_projection_is_the_solution_of_its_quadratic_problem() -> None:
    """Against SLSQP on min ½‖y − x‖², y ≥ 0, Σy = 1, for 30 random x of 5 entries."""
    for seed in range(30):
        x = _random(5, seed=seed).numpy()
        found = scipy.optimize.minimize(
            lambda y, x=x: 0.5 * ((y - x) ** 2).sum(),
            np.full(5, 0.2),
            jac=lambda y, x=x: y - x,
            bounds=[(0, None)] * 5,
            constraints={"type": "eq", "fun": lambda y: y.sum() - 1, "jac": lambda y: np.ones(5)},
            method="SLSQP",
            options={"ftol": 1e-14},
        )
        np.testing.assert_allclose(simplex()(torch.from_numpy(x)).numpy(), found.x, atol=1e-6)


def test_rows_are_projected_onto_the_simplex_one_by_one() -> None:
    x = _random(7, 4)
    assert torch.equal(simplex()(x), torch.stack([simplex()(row) for row in x]))


@given(
    st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=8),
    st.sampled_from([torch.float64, torch.float32]),
)
@settings(max_examples=300, deadline=None)
def test_the_simplex_projection_sums_to_one_at_every_scale(entries: list[float], dtype: torch.dtype) -> None:
    """At entries beyond 2^53 the 1 in Σy = 1 is below the resolution of the sum, and at 2^24 in float32."""
    y = simplex()(torch.tensor(entries, dtype=dtype))
    assert (y >= 0).all()
    assert float(y.double().sum()) == pytest.approx(1, abs=1e-6 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize(("dtype", "size"), [(torch.float64, 1e30), (torch.float32, 1e30), (torch.float16, 6e4)])
def test_the_ball_holds_where_squares_overflow(dtype: torch.dtype, size: float) -> None:
    """Four entries of 1e30: the norm 2e30 is a float32, its square is not. The result has norm 2, all entries 1."""
    y = ball(2)(torch.full((4,), size, dtype=dtype))
    torch.testing.assert_close(y, torch.ones(4, dtype=dtype), rtol=1e-3 if dtype == torch.float16 else 1e-6, atol=0)


def test_the_centre_of_the_ball_is_a_point_like_others() -> None:
    assert torch.equal(ball(1)(torch.zeros(3)), torch.zeros(3))
    assert torch.equal(ball(1)(torch.tensor(-4.0)), torch.tensor(-1.0))
