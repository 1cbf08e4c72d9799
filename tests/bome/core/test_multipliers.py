"""Multipliers of a step on linear constraints: against SciPy, and by the conditions that make them right."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from bome.core.multipliers import multipliers


@st.composite
def steps(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """grad, A, room and s: with a point where A d ≤ room; some rows are doubled, turned round or 0."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, k = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    rows = random.normal(size=(k, n)) * 10 ** random.uniform(-2, 2, size=(k, 1))
    if k > 1 and (way := draw(st.sampled_from([0.0, 1.0, 2.0, -1.0]))) != 1:
        rows[1] = way * rows[0]
    room = rows @ random.normal(size=n) + np.maximum(random.normal(size=k), 0)
    return random.normal(size=n), rows, room, 10 ** draw(st.floats(-2, 2))


@settings(deadline=None, max_examples=60)
@given(steps())
def test_the_step_is_that_of_scipy(problem: tuple[np.ndarray, np.ndarray, np.ndarray, float]) -> None:
    """In units of s, where SciPy's solver is at its best; from a start that does not know the answer."""
    grad, rows, room, s = problem
    lam = multipliers(rows @ rows.T, rows @ grad, room, s)
    d = -(grad + lam @ rows)
    found = minimize(
        lambda x: 0.5 * (x + grad) @ (x + grad),
        np.zeros(len(grad)),
        jac=lambda x: x + grad,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
        constraints={"type": "ineq", "fun": lambda x: room / s - rows @ x, "jac": lambda x: -rows},
    )
    assert (lam >= 0).all()
    scale = float(1 + np.linalg.norm(grad) + np.linalg.norm(room / s))
    if found.success:
        np.testing.assert_allclose(d, found.x, atol=1e-5 * scale)


@settings(deadline=None, max_examples=100)
@given(steps())
def test_it_is_feasible_and_a_row_with_room_has_no_multiplier(
    problem: tuple[np.ndarray, np.ndarray, np.ndarray, float],
) -> None:
    """With d = −s (grad + Aᵀλ) and λ ≥ 0 these are the conditions of a minimum."""
    grad, rows, room, s = problem
    lam = multipliers(rows @ rows.T, rows @ grad, room, s)
    d = -s * (grad + lam @ rows)
    size = np.linalg.norm(rows, axis=1).clip(1e-9)
    left = (room - rows @ d) / size
    scale = 1 + np.abs(room / size).max() + s * np.linalg.norm(grad)
    assert left.min() > -1e-6 * scale
    assert abs((lam * size) @ left) < 1e-5 * scale * (1 + (lam * size).sum())


def test_one_row_has_the_multiplier_of_the_barrier() -> None:
    """λ = max((φ − ⟨∇f, ∇q⟩)/‖∇q‖², 0) with φ = −room/s, as BOME has it."""
    grad, dq, room, s = np.array([1.0, -2.0]), np.array([0.5, 1.0]), -0.3, 0.1
    expected = (-room / s - grad @ dq) / (dq @ dq)
    found = multipliers(np.array([[dq @ dq]]), np.array([dq @ grad]), np.array([room]), s)
    np.testing.assert_allclose(found, [expected], rtol=1e-8)
    assert multipliers(np.array([[dq @ dq]]), np.array([dq @ grad]), np.array([100.0]), s) == [0]


def test_what_is_not_finite_or_nothing_is_told() -> None:
    assert np.isnan(multipliers(np.eye(2), np.array([np.nan, 0.0]), np.zeros(2), 1.0)).all()
    assert multipliers(np.zeros((1, 1)), np.zeros(1), np.array([-1.0]), 1.0).tolist() == [0]
    assert multipliers(np.zeros((0, 0)), np.zeros(0), np.zeros(0), 1.0).shape == (0,)


def test_rows_that_contradict_each_other_do_not_fail() -> None:
    """x ≤ −1 and x ≥ 1."""
    rows = np.array([[1.0], [-1.0]])
    found = multipliers(rows @ rows.T, rows @ np.ones(1), np.array([-1.0, -1.0]), 1.0)
    assert np.isfinite(found).all()
    assert (found >= 0).all()
