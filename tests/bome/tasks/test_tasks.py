"""The tasks themselves: their losses, their solutions and their names."""

import itertools
import math

import numpy as np
import pytest
import scipy.optimize
import torch
from torch import Tensor

from bome.core.trees import Pair
from bome.errors import ProblemError
from bome.oracles import AutogradOracle
from bome.tasks import TASKS, Task, coreset, lls, minimax, quadratic, quadratic_instance, sine

VARIANTS = {
    "coreset": ("code", "paper"),
    "minimax": ("code", "paper"),
    "lls": ("code", "paper", "corrected"),
    "quadratic": ("code", "isotropic"),
    "sine": ("code",),
}
STARTS = {
    "coreset": ("a", "b", "c"),
    "minimax": ("a",),
    "lls": ("a",),
    "quadratic": ("a", "b"),
    "sine": ("three", "zero", "eight", "mixed"),
}
CASES = [(name, variant) for name, variants in VARIANTS.items() for variant in variants]
SOLVABLE = [case for case in CASES if case != ("minimax", "paper")]  # whose inner problem has no solution for v ≠ 0


def _tensor(*values: float) -> Tensor:
    return torch.tensor(values if len(values) > 1 else values[0], dtype=torch.float64)


def _loss(task: Task, which: str, v: Tensor, theta: Tensor) -> float:
    loss = task.problem.outer if which == "f" else task.problem.inner
    return float(loss(v, theta, None))


def _random_points(task: Task, count: int, scale: float = 2.0) -> list[Pair]:
    generator = torch.Generator().manual_seed(0)
    v, theta = (leaves[0] for leaves in task.problem.point)

    def draw(like: Tensor) -> Tensor:
        return scale * torch.randn(like.shape, generator=generator, dtype=like.dtype)

    return [Pair((draw(v),), (draw(theta),)) for _ in range(count)]


def _solution(task: Task) -> Pair:
    """A solution of the task, from the formulas of its docstring; of the coreset one within 1e-15 of the limit."""
    if task.name == "coreset":
        weights = (0.8, 0.2) if task.variant == "code" else (1.0, 1e-18)
        v = _tensor(-40.0, math.log(weights[0]), -40.0, math.log(weights[1]))
        return Pair((v,), (_tensor(1.8, 0.4) if task.variant == "code" else _tensor(3.0, 1.0),))
    if task.name == "minimax":
        return Pair((_tensor(0.0),), (_tensor(-3.0),))
    if task.name == "lls":
        return Pair((_tensor(1.0),), (_tensor(1.0, 1.0),))
    if task.name == "quadratic":
        i = quadratic_instance(task.variant)
        v = torch.linalg.inv(i.A.T @ i.A + torch.eye(3, dtype=torch.float64)) @ (i.A.T @ i.a + i.b)
        return Pair((v,), (i.A @ v,))
    phase = 1.5 * math.pi  # the trough of the sine nearest to 2a = 4
    v_star = (-2 + 2 * phase) / 3
    return Pair((_tensor(v_star),), (_tensor(phase + 2 - v_star, phase + 2 - v_star),))


@pytest.mark.parametrize(
    ("task", "v", "theta", "f", "g"),
    [
        # σ = ¼ each: Xᵀσ = (−¼, 1); f = 0.1 (9 + 25), g = 1/16 + 4.
        (coreset(), _tensor(0.0, 0.0, 0.0, 0.0), _tensor(0.0, 3.0), 3.4, 4.0625),
        # With the printed x4, Xᵀσ = (−¼, 2): g = 1/16 + 1.
        (coreset("paper"), _tensor(0.0, 0.0, 0.0, 0.0), _tensor(0.0, 3.0), 34.0, 1.0625),
        (minimax(), _tensor(4.0), _tensor(4.0), 16.0, -16.0),
        # f = ½·(2 − 5)² + ½·(3 − 1)², g = ½·9 − 2·3.
        (lls(), _tensor(2.0), _tensor(3.0, 5.0), 6.5, -1.5),
        (lls("paper"), _tensor(2.0), _tensor(3.0, 5.0), 1.0 + 16.0, 1.0),
        (lls("corrected"), _tensor(2.0), _tensor(3.0, 5.0), 4.0 + 9.0, 1.0),
        # f = (0 − 2)² + 2·(0 − 4)², g = 2 sin(−2).
        (sine(), _tensor(0.0), _tensor(0.0, 0.0), 36.0, 2 * math.sin(-2)),
    ],
    ids=lambda value: f"{value.name}-{value.variant}" if isinstance(value, Task) else "",
)
def test_losses_have_the_values_computed_by_hand(task: Task, v: Tensor, theta: Tensor, f: float, g: float) -> None:
    assert _loss(task, "f", v, theta) == pytest.approx(f, rel=1e-14)
    assert _loss(task, "g", v, theta) == pytest.approx(g, rel=1e-14)


@pytest.mark.parametrize("variant", VARIANTS["quadratic"])
def test_losses_of_the_quadratic_are_its_formulas(variant: str) -> None:
    task, instance = quadratic(variant), quadratic_instance(variant)
    a_matrix, h, a, b = (x.numpy() for x in (instance.A, instance.H, instance.a, instance.b))
    for point in _random_points(task, 5):
        v, theta = point.v[0].numpy(), point.theta[0].numpy()
        r = theta - a_matrix @ v
        f = 0.5 * np.sum((theta - a) ** 2) + 0.5 * np.sum((v - b) ** 2)
        assert _loss(task, "f", *(x[0] for x in point)) == pytest.approx(f, rel=1e-13)
        assert _loss(task, "g", *(x[0] for x in point)) == pytest.approx(0.5 * r @ h @ r, rel=1e-13)


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_gradients_agree_with_finite_differences(name: str, variant: str) -> None:
    """Central differences with step 1e-5 have errors of about 1e-10 (third derivatives times 1e-10, and rounding)."""
    task = TASKS[name](variant)
    oracle = AutogradOracle(task.problem)
    for point in _random_points(task, 5):
        for which, evaluate in (("f", oracle.outer), ("g", oracle.inner)):
            gradient = evaluate(*point, None).grad
            for part, (leaf, slope) in enumerate(zip(point.v + point.theta, gradient.v + gradient.theta, strict=True)):
                for i in range(leaf.numel()):
                    ends = []
                    for h in (1e-5, -1e-5):
                        moved = [point.v[0].clone(), point.theta[0].clone()]
                        moved[part].view(-1)[i] += h
                        ends.append(_loss(task, which, *moved))
                    expected = (ends[0] - ends[1]) / 2e-5
                    assert float(slope.reshape(-1)[i]) == pytest.approx(expected, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_the_optimum_is_feasible_and_has_the_stated_value_at_distance_zero(name: str, variant: str) -> None:
    task = TASKS[name](variant)
    solution = _solution(task)
    assert task.optimum is not None
    assert task.optimum.distance(solution) <= 1e-12
    assert _loss(task, "f", solution.v[0], solution.theta[0]) == pytest.approx(task.optimum.f, abs=1e-12)
    assert float(AutogradOracle(task.problem).inner(*solution, None).grad.theta[0].abs().max()) <= 1e-12


@pytest.mark.parametrize(("name", "variant"), SOLVABLE)
def test_no_feasible_point_has_a_lower_value_than_the_optimum(name: str, variant: str) -> None:
    """Points near the solution and far from it; `solve_inner` makes them feasible."""
    task = TASKS[name](variant)
    solution = _solution(task)
    assert task.optimum is not None
    assert task.solve_inner is not None
    for scale in (1e-3, 0.1, 2.0):
        for shift in _random_points(task, 100, scale):
            v = (solution.v[0] + shift.v[0],)
            theta = task.solve_inner(v, (solution.theta[0] + shift.theta[0],))
            assert _loss(task, "f", v[0], theta[0]) >= task.optimum.f - 1e-12


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_the_distance_grows_away_from_the_solution(name: str, variant: str) -> None:
    """Moving the variable in which the solution is unique by 0.1 in one entry moves the point by 0.1 from the set."""
    task = TASKS[name](variant)
    solution = _solution(task)
    assert task.optimum is not None
    if name == "minimax":
        moved = Pair((solution.v[0] + 0.1,), solution.theta)
    else:
        theta = solution.theta[0].clone()
        theta[1] += 0.1
        moved = Pair(solution.v, (theta,))
    assert task.optimum.distance(moved) == pytest.approx(0.1, rel=1e-9)


def test_the_printed_lls_is_solved_by_every_v() -> None:
    """{(v, (v, 1))}: and (0, (1, 1)) is 1/√2 from its nearest point (½, (½, 1))."""
    optimum = lls("paper").optimum
    assert optimum is not None
    assert optimum.distance(Pair((_tensor(-7.0),), (_tensor(-7.0, 1.0),))) == 0
    assert optimum.distance(Pair((_tensor(0.0),), (_tensor(1.0, 1.0),))) == pytest.approx(math.sqrt(0.5), rel=1e-14)


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


def test_the_optimum_of_the_sine_is_global() -> None:
    """Every feasible point has v + θ_i − 2 = −π/2 + 2k_iπ: a grid over v and both k, fine enough to come within 1e-5.

    f is a quadratic of curvature 6 along v, so a spacing of 1e-3 misses its minimum by at most 3·(5e-4)² < 1e-6.
    """
    task = sine()
    assert task.optimum is not None
    v = np.arange(-10, 10, 1e-3)
    lowest = math.inf
    for k in itertools.product(range(-3, 5), repeat=2):
        theta = [2 * math.pi * each - math.pi / 2 + 2 - v for each in k]
        lowest = min(lowest, float(np.min((v - 2) ** 2 + sum((t - 4) ** 2 for t in theta))))
    assert task.optimum.f <= lowest <= task.optimum.f + 1e-6


@pytest.mark.parametrize(("name", "variant"), SOLVABLE)
def test_solve_inner_is_where_long_gradient_descent_ends(name: str, variant: str) -> None:
    """2,000 steps of the task's own α, projected where the task projects."""
    task = TASKS[name](variant)
    assert task.solve_inner is not None
    (rule,) = task.problem.project_theta
    oracle = AutogradOracle(task.problem)
    for point in _random_points(task, 3):
        theta = point.theta
        for _ in range(2000):
            moved = theta[0] - task.settings.inner_lr * oracle.inner(point.v, theta, None, wrt="theta").grad.theta[0]
            theta = (moved if rule is None else rule(moved),)
        torch.testing.assert_close(task.solve_inner(*point), theta, rtol=0, atol=1e-9)


def test_solve_inner_keeps_what_the_inner_problem_leaves_free() -> None:
    """θ at v = 0 in the saddle problem, and the second coordinate of θ in LLS."""
    saddle, free = minimax().solve_inner, lls().solve_inner
    assert saddle is not None
    assert free is not None
    assert float(saddle((_tensor(0.0),), (_tensor(3.0),))[0]) == 3.0
    assert float(saddle((_tensor(-0.1),), (_tensor(3.0),))[0]) == -10.0
    assert free((_tensor(2.0),), (_tensor(3.0, 5.0),))[0].tolist() == [2.0, 5.0]


def test_variants_that_are_bounded_say_so_to_the_solver() -> None:
    """The saddle problem of the code keeps v and θ in [−10, 10]; LLS keeps θ in [−100, 100]."""
    saddle, free = minimax().problem, lls().problem
    (project_v,), (project_theta,) = saddle.project_v, saddle.project_theta
    assert project_v is not None
    assert project_theta is not None
    assert (float(project_v(_tensor(11.0))), float(project_theta(_tensor(-11.0)))) == (10.0, -10.0)
    assert free.project_v == (None,)
    assert free.project_theta[0] is not None
    assert free.project_theta[0](_tensor(101.0, -101.0)).tolist() == [100.0, -100.0]
    assert minimax("paper").problem.project_v == (None,)
    assert minimax("paper").solve_inner is None


@pytest.mark.parametrize("variant", VARIANTS["quadratic"])
def test_the_instance_of_the_quadratic_knows_its_derivative_and_fixed_points(variant: str) -> None:
    task, instance = quadratic(variant, seed=3), quadratic_instance(variant, seed=3)
    v = torch.ones(3, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(instance.outer(v, instance.A @ v), v)
    torch.testing.assert_close(instance.exact_hypergradient(v.detach()), slope, rtol=1e-13, atol=1e-13)

    best, theta = instance.solution()
    assert float(instance.exact_hypergradient(best).norm()) <= 1e-13
    assert instance.residual(*instance.fixed_point(3, 0.2), 3, 0.2) <= 1e-13
    # (1 − 0.2 · 0.5)^400 = 5e-19: with so many inner steps the fixed point is the solution.
    torch.testing.assert_close(instance.fixed_point(400, 0.2), (best, theta), rtol=0, atol=1e-12)
    assert instance.residual(best, theta, 3, 0.2) > 0.1

    eigenvalues = torch.linalg.eigvalsh(instance.H)
    assert task.settings.inner_lr <= 1 / float(eigenvalues.max())
    assert float(eigenvalues.max() / eigenvalues.min()) == pytest.approx(4.0 if variant == "code" else 1.0)


def test_the_seed_draws_the_quadratic() -> None:
    assert torch.equal(quadratic_instance(seed=1).A, quadratic_instance(seed=1).A)
    assert not torch.equal(quadratic_instance(seed=1).A, quadratic_instance(seed=2).A)
    assert torch.equal(quadratic_instance(seed=1, dtype=torch.float32).H, quadratic_instance(seed=1).H.float())


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


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("name", "variant"), CASES)
def test_every_start_gives_fresh_variables_of_the_dtype(name: str, variant: str, dtype: torch.dtype) -> None:
    for start in STARTS[name]:
        first, second = (TASKS[name](variant=variant, start=start, seed=1, dtype=dtype) for _ in range(2))
        assert (first.name, first.variant, first.start) == (name, variant, start)
        for one, other in zip(sum(first.problem.point, ()), sum(second.problem.point, ()), strict=True):
            assert one.dtype == dtype
            assert torch.equal(one, other)
            assert one.data_ptr() != other.data_ptr()
        assert first.problem.outer(first.problem.v.leaves[0], first.problem.theta.leaves[0], None).dtype == dtype


@pytest.mark.parametrize("name", VARIANTS)
def test_unknown_names_are_refused_with_the_known_ones(name: str) -> None:
    make = TASKS[name]
    with pytest.raises(ProblemError, match=f"unknown variant of {name} 'zzz'; known: {', '.join(VARIANTS[name])}"):
        make(variant="zzz")
    with pytest.raises(ProblemError, match=f"unknown start of {name} 'zzz'; known: {', '.join(STARTS[name])}"):
        make(start="zzz")
