"""Projections give the nearest point of their set, for every dtype and scale."""

from collections.abc import Callable

import numpy as np
import pytest
import scipy.optimize
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bome import (
    Problem,
    ProblemError,
    affine,
    ball,
    box,
    half_space,
    joint,
    nonnegative,
    polyhedron,
    product,
    simplex,
)
from bome._typing import Projection
from bome.projections import Rules

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
RULES: dict[str, Projection] = {
    "box": box(-0.5, 1),
    "nonnegative": nonnegative(),
    "ball": ball(2),
    "simplex": simplex(),
    "simplex with a floor": simplex(floor=0.1),
}
SIX: dict[str, Projection] = RULES | {
    "half-space": half_space([1, 1, 1, 0, -2, 0], 0.5),
    "polyhedron": polyhedron([[1, 1, 1, 0, 0, 0], [-1, 0, 0, 0, 0, 1], [0, 0, -1, -1, 0, 0]], [1, 0, 0.5]),
    "affine": affine([[1, 1, 1, 1, 1, 1], [1, -1, 0, 0, 0, 0]], [1, 0]),
    "box of tensors": box(torch.tensor([-1.0, 0, 0, -torch.inf, 2, 0]), torch.tensor([1.0, 0.0, torch.inf, 0, 3, 2])),
    "product": product((2, ball(0.5)), (1, None), (3, simplex())),
}
"""Sets of tensors with six entries."""


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


@pytest.mark.parametrize("name", SIX)
def test_projecting_twice_changes_nothing_more(name: str) -> None:
    y = SIX[name](_random(6))
    torch.testing.assert_close(SIX[name](y), y, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("name", SIX)
def test_no_point_of_the_set_is_nearer(name: str) -> None:
    """The projection y of x satisfies ⟨x − y, z − y⟩ ≤ 0 for every z of the set; here for 200 of them."""
    x = _random(6, seed=1)
    y = SIX[name](x)
    for seed in range(200):
        z = SIX[name](_random(6, seed=seed + 2))
        assert float((x - y) @ (z - y)) <= 1e-12


@pytest.mark.parametrize("name", SIX)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_batch_of_points_is_mapped(name: str, dtype: torch.dtype) -> None:
    points = _random(5, 6, dtype=dtype)
    together = torch.vmap(SIX[name])(points)
    assert together.dtype == dtype
    torch.testing.assert_close(together, torch.stack([SIX[name](x) for x in points]))


@pytest.mark.parametrize("name", SIX)
def test_its_derivative_is_that_of_finite_differences(name: str) -> None:
    x = _random(6, seed=3).requires_grad_()
    assert torch.autograd.gradcheck(SIX[name], x)


def test_points_of_the_set_stay_where_they_are() -> None:
    inside = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    for rule in RULES.values():
        torch.testing.assert_close(rule(inside), inside, rtol=0, atol=1e-16)


@pytest.mark.parametrize("floor", [0.0, 0.1])
def test_the_simplex_projection_is_the_solution_of_its_quadratic_problem(floor: float) -> None:
    """Against SLSQP on min ½‖y − x‖², y ≥ floor, Σy = 1, for 30 random x of 5 entries."""
    for seed in range(30):
        x = _random(5, seed=seed).numpy()
        found = scipy.optimize.minimize(
            lambda y, x=x: 0.5 * ((y - x) ** 2).sum(),
            np.full(5, 0.2),
            jac=lambda y, x=x: y - x,
            bounds=[(floor, None)] * 5,
            constraints={"type": "eq", "fun": lambda y: y.sum() - 1, "jac": lambda y: np.ones(5)},
            method="SLSQP",
            options={"ftol": 1e-14},
        )
        np.testing.assert_allclose(simplex(floor)(torch.from_numpy(x)).numpy(), found.x, atol=1e-6)


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


def _instance(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows A x ≤ b with a common point, some of them twice and some tight there, and a point x at some distance."""
    draw = np.random.default_rng(seed)
    n, m = draw.integers(1, 7), draw.integers(1, 10)
    A = draw.normal(size=(m, n))
    A[draw.integers(0, m)] = A[0]
    b = A @ draw.normal(size=n) + draw.exponential(size=m) * draw.integers(0, 2, size=m)
    return A, b, draw.normal(size=n) * 10 ** draw.uniform(-3, 3)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=200, deadline=None)
def test_a_polyhedron_meets_the_conditions_of_karush_kuhn_and_tucker(seed: int) -> None:
    """y is feasible, and x − y = Aᵀμ with μ ≥ 0 on the rows that hold with equality at y: all to 1e-10 of the scale."""
    A, b, x = _instance(seed)
    y = polyhedron(A, b)(torch.from_numpy(x)).numpy()
    scale = 1 + np.abs(x).max()
    assert (A @ y - b).max() <= 1e-10 * scale
    tight = A @ y - b >= -1e-10 * scale
    left = np.linalg.norm(x - y) if not tight.any() else scipy.optimize.nnls(A[tight].T, x - y)[1]
    assert left <= 1e-10 * scale


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_a_polyhedron_is_the_solution_of_its_quadratic_problem(seed: int) -> None:
    """Against SLSQP, whose own accuracy is 1e-6."""
    A, b, x = _instance(seed)
    x = x / max(1, np.abs(x).max())
    found = scipy.optimize.minimize(
        lambda y: 0.5 * ((y - x) ** 2).sum(),
        np.zeros_like(x),
        jac=lambda y: y - x,
        constraints={"type": "ineq", "fun": lambda y: b - A @ y, "jac": lambda y: -A},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    y = polyhedron(A, b)(torch.from_numpy(x)).numpy()
    assert ((y - x) ** 2).sum() <= ((found.x - x) ** 2).sum() + 1e-6


def test_an_affine_set_is_the_least_squares_solution() -> None:
    """y = x − A⁺(A x − b), of three equations of which the third is the sum of the others."""
    A, b, x = _random(3, 6), _random(3, seed=4), _random(6, seed=5)
    A[2], b[2] = A[0] + A[1], b[0] + b[1]
    y = affine(A, b)(x)
    torch.testing.assert_close(A @ y, b, rtol=0, atol=1e-12)
    shift, *_ = np.linalg.lstsq(A.numpy(), (A @ x - b).numpy(), rcond=None)
    torch.testing.assert_close(y, x - torch.from_numpy(shift), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", sorted(SIX.keys() - {"ball", "product"}))
def test_the_rows_of_a_set_describe_it(name: str) -> None:
    """Projecting on the rows gives the same point, and points of the set satisfy them."""
    rule, x = SIX[name], _random(6, seed=6)
    rows = Rules((rule,)).rows((x,))
    assert rows is not None
    both = polyhedron(torch.cat([rows.A, rows.E, -rows.E]), torch.cat([rows.b, rows.e, -rows.e]))
    torch.testing.assert_close(both(x), rule(x), rtol=0, atol=1e-10)


def test_bounds_that_are_numbers_are_exact_in_float64() -> None:
    """0.1 is no number of float32."""
    rule = box(0.1, torch.tensor([0.7, 0.8], dtype=torch.float64))
    x = torch.tensor([-1.0, 2.0], dtype=torch.float64)
    assert rule(x).tolist() == [0.1, 0.8]
    rows = rule.rows(x)
    assert rows.b.tolist() == [0.7, 0.8, -0.1, -0.1]
    assert box(0.1, 0.7).rows(x).b.tolist() == [0.7, 0.7, -0.1, -0.1]


def test_a_variable_tells_the_rows_of_all_its_tensors() -> None:
    """Two tensors of 2 and 3 entries: x_0 ≤ 1, x_1 ≤ 1 (and ≥ 0), the other three sum to 1."""
    leaves = torch.zeros(2), torch.zeros(3)
    rows = Rules((box(0, 1), simplex())).rows(leaves)
    assert rows is not None
    assert rows.E.tolist() == [[0, 0, 1, 1, 1]]
    assert rows.A.shape == (7, 5)
    assert rows.A[:2].tolist() == [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0]]
    floored = simplex(0.1).rows(leaves[0])
    assert (floored.A.tolist(), floored.b.tolist()) == ([[-1, 0], [0, -1]], [-0.1, -0.1])
    free = Rules((None, None)).rows(leaves)
    assert free is not None
    assert (free.A.shape, free.E.shape) == ((0, 5), (0, 5))
    assert Rules((ball(1), None)).rows(leaves) is None
    assert Rules((None, None), joint(ball(1))).rows(leaves) is None
    together = Rules((None, None), joint(affine([[1, 1, 1, 1, 1]], [0]))).rows(leaves)
    assert together is not None
    torch.testing.assert_close(together.E * 5**0.5, torch.ones(1, 5, dtype=torch.float64))


def test_a_joint_set_holds_for_all_tensors_of_a_variable_together() -> None:
    """Three entries in two tensors of different dtypes, together on the simplex."""
    theta = {"a": torch.tensor([2.0, 0.0], dtype=torch.float64), "b": torch.tensor([[1.5]])}

    def loss(v: Tensor, theta: dict[str, Tensor], batch: None) -> Tensor:
        return v + theta["a"].sum() + theta["b"].sum()

    problem = Problem(loss, loss, torch.zeros(()), theta, project_theta=joint(simplex()))
    a, b = problem.project_theta(problem.point.theta)
    assert (a.tolist(), b.tolist()) == ([0.75, 0.0], [[0.25]])
    assert (a.dtype, b.dtype) == (torch.float64, torch.float32)
    problem.project_theta.write(problem.point.theta)
    assert theta["a"].tolist() == [0.75, 0.0]


def test_bounds_in_tensors_fix_and_free_entries() -> None:
    low, high = torch.tensor([1.0, -torch.inf, 0.0]), torch.tensor([1.0, torch.inf, 2.0])
    assert box(low, high)(torch.tensor([[5.0, -7.0, 3.0]], dtype=torch.float64)).tolist() == [[1.0, -7.0, 2.0]]
    assert box(0, torch.tensor(2.0))(torch.tensor([-1.0, 3.0])).tolist() == [0.0, 2.0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: box(2, 1), r"^box needs low <= high, got \[2, 1\]$"),
        (lambda: box(torch.tensor([0.0, 3.0]), 2), "^box needs low <= high"),
        (lambda: box(float("nan"), 2), "^box needs low <= high"),
        (lambda: box(torch.inf, torch.inf), "^box needs low <= high"),
        (lambda: box(torch.zeros(2), 1)(torch.zeros(3)), r"^the bounds of box have shape \(2,\), the tensor \(3,\)$"),
        (lambda: simplex(-0.1), r"^the floor of a simplex must be 0 or a positive number, got -0.1$"),
        (lambda: simplex(0.5)(torch.zeros(2)), r"^simplex\(floor=0.5\) has no room for rows of 2 entries$"),
        (lambda: ball(0), "^ball needs a positive radius, got 0$"),
        (lambda: half_space([1, 2], 0)(torch.zeros(3)), "^the set has 2 columns, but the tensor 3 entries$"),
        (lambda: polyhedron([[1], [-1]], [0, -1]), r"^polyhedron\(A, b\) has no point: no x satisfies all rows$"),
        (lambda: polyhedron([[0]], [-1]), r"^polyhedron\(A, b\) has no point"),
        (lambda: polyhedron([[1], [2]], [1]), r"^polyhedron\(A, b\) needs a finite matrix and an entry of b for each"),
        (lambda: polyhedron([[torch.inf]], [1]), r"^polyhedron\(A, b\) needs a finite matrix"),
        (lambda: affine([[1, 1], [1, 1]], [0, 1]), r"^affine\(A, b\) has no point: no x satisfies all rows$"),
        (lambda: product((2, 3)), r"^product takes pairs such as \(2, box\(0, 1\)\), got 3 for a set$"),  # type: ignore[arg-type]
        (lambda: product((2, box(0, 1)))(torch.zeros(3)), r"^product has 2 entries, but the tensor has shape \(3,\)$"),
        (lambda: joint(3), r"^joint takes a projection such as simplex\(\), got 3$"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_set_is_refused_in_one_line(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        wrong()


def test_an_infinite_limit_is_no_row() -> None:
    assert polyhedron([[1], [1]], [torch.inf, 2])(torch.tensor([5.0])).tolist() == [2.0]
