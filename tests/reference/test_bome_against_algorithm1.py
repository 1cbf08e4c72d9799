"""BOME against a literal transcription of Algorithm 1, and the exact identities its step obeys."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from bome import BOME, AutogradOracle, Batches, GradientDescent, Problem, Stepper
from bome.core.barrier import Metric, Phi
from bome.core.trees import Pair
from bome.methods.base import Step
from bome.tasks import QuadraticInstance, Task, coreset, minimax, quadratic, quadratic_instance
from tests.support.algorithm1 import Array, Coreset, Losses, Minimax, Quadratic, algorithm1_step

XI = 0.05
ALPHA = 0.05
ETA = 0.5
TOLERANCE = 1e-12


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Tensors of a few entries: more threads only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def _case(name: str) -> tuple[Task, Losses]:
    if name == "coreset":
        return coreset(), Coreset()
    if name == "minimax":
        return minimax("paper"), Minimax()
    instance = quadratic_instance(seed=1)
    return quadratic(start="b", seed=1), Quadratic(
        instance.A.numpy(), instance.H.numpy(), instance.a.numpy(), instance.b.numpy()
    )


def _stepper(problem: Problem, steps: int, phi: Phi) -> Stepper:
    return Stepper(
        problem,
        BOME(GradientDescent(lr=ALPHA, steps=steps), eta=ETA, phi=phi),
        outer_opt=torch.optim.SGD(problem.v.leaves, lr=XI),
        inner_opt=torch.optim.SGD(problem.theta.leaves, lr=XI),
    )


def _arrays(problem: Problem) -> tuple[Array, Array]:
    """Copies of (v, θ) as one-dimensional arrays."""
    point = problem.point
    return point.v[0].numpy().reshape(-1).copy(), point.theta[0].numpy().reshape(-1).copy()


def _place(problem: Problem, v: Array, theta: Array) -> None:
    with torch.no_grad():
        problem.v.leaves[0].copy_(torch.from_numpy(v).reshape(problem.v.leaves[0].shape))
        problem.theta.leaves[0].copy_(torch.from_numpy(theta).reshape(problem.theta.leaves[0].shape))


def _difference(problem: Problem, v: Array, theta: Array) -> float:
    ours_v, ours_theta = _arrays(problem)
    return float(max(np.abs(ours_v - v).max(), np.abs(ours_theta - theta).max()))


@pytest.mark.parametrize("phi", ["norm", "gap"])
@pytest.mark.parametrize("steps", [1, 10])
@pytest.mark.parametrize("name", ["coreset", "minimax", "quadratic"])
def test_first_fifty_steps_follow_algorithm_1(name: str, steps: int, phi: Phi) -> None:
    task, losses = _case(name)
    stepper = _stepper(task.problem, steps, phi)
    v, theta = _arrays(task.problem)
    for k in range(50):
        stepper.step()
        v, theta = algorithm1_step(losses, v, theta, xi=XI, alpha=ALPHA, steps=steps, eta=ETA, phi=phi)
        assert _difference(task.problem, v, theta) <= TOLERANCE, f"step {k}"


@pytest.mark.parametrize("phi", ["norm", "gap"])
@pytest.mark.parametrize("steps", [1, 10])
@pytest.mark.parametrize("name", ["coreset", "minimax", "quadratic"])
def test_a_thousand_single_steps_from_the_iterates_of_algorithm_1(name: str, steps: int, phi: Phi) -> None:
    """Started anew from the reference at every step, rounding errors cannot pile up, so the bound holds throughout."""
    task, losses = _case(name)
    stepper = _stepper(task.problem, steps, phi)
    v, theta = _arrays(task.problem)
    for k in range(1000):
        _place(task.problem, v, theta)
        stepper.step()
        v, theta = algorithm1_step(losses, v, theta, xi=XI, alpha=ALPHA, steps=steps, eta=ETA, phi=phi)
        assert _difference(task.problem, v, theta) <= TOLERANCE, f"step {k}"


def _direction(problem: Problem, method: BOME, v: Tensor, theta: Tensor) -> Step:
    return method.step(AutogradOracle(problem), Pair((v,), (theta,)), {}, Batches(), Metric((XI,), (XI,)))


def _random_points(instance: QuadraticInstance, count: int) -> Iterator[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    for _ in range(count):
        v = torch.randn(len(instance.b), generator=generator, dtype=torch.float64)
        yield v, torch.randn(len(instance.a), generator=generator, dtype=torch.float64)


def _gradients(instance: QuadraticInstance, v: Tensor, theta: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """∇f and ∇q̂ = (−AᵀH(I − P)r, Hr), r = θ − Av, P = (I − αH)^T: since θ^(T) − Av = Pr."""
    r = theta - instance.A @ v
    identity = torch.eye(len(r), dtype=r.dtype)
    p: Tensor = torch.linalg.matrix_power(identity - ALPHA * instance.H, steps)
    dq = torch.cat([-instance.A.T @ instance.H @ (identity - p) @ r, instance.H @ r])
    return torch.cat([v - instance.b, theta - instance.a]), dq


@pytest.mark.parametrize("phi", ["norm", "gap"])
@pytest.mark.parametrize("steps", [1, 10])
def test_the_direction_meets_the_barrier_with_equality_where_lambda_is_positive(steps: int, phi: Phi) -> None:
    """δ minimises ‖∇f − δ‖² subject to ⟨∇q̂, δ⟩ ≥ φ: the constraint binds, or δ = ∇f.

    Both gradients are those derived by hand for the quadratic; q̂ = ½rᵀHr − ½(Pr)ᵀH(Pr).
    """
    instance = quadratic_instance()
    problem = quadratic().problem
    method = BOME(GradientDescent(lr=ALPHA, steps=steps), eta=ETA, phi=phi)
    active = 0
    for v, theta in _random_points(instance, 200):
        df, dq = _gradients(instance, v, theta, steps)
        step = _direction(problem, method, v, theta)
        assert step.info.q is not None
        assert step.info.lam is not None
        barrier = ETA * (dq @ dq if phi == "norm" else step.info.q)
        delta = torch.cat(step.direction.v + step.direction.theta)
        slack = float(dq @ delta - barrier)
        scale = float(dq.norm() * delta.norm())
        if step.info.lam > 0:
            active += 1
            assert abs(slack) <= 1e-14 * scale
            assert float((delta - df - step.info.lam * dq).norm()) <= 1e-13 * scale
        else:
            assert slack > 0
            assert torch.equal(delta, df)
    assert 20 < active < 180  # both cases were seen


@pytest.mark.parametrize("phi", ["norm", "gap"])
def test_the_direction_is_the_gradient_of_f_where_that_of_q_vanishes(phi: Phi) -> None:
    """At v = 0, θ = 0 the inner problem is solved exactly in floating point: ∇q̂ = 0, so λ = 0 (not η) and δ = ∇f."""
    instance = quadratic_instance()
    step = _direction(
        quadratic().problem,
        BOME(GradientDescent(lr=ALPHA), eta=ETA, phi=phi),
        torch.zeros_like(instance.b),
        torch.zeros_like(instance.a),
    )
    assert step.info.lam == 0
    assert torch.equal(step.direction.v[0], -instance.b)
    assert torch.equal(step.direction.theta[0], -instance.a)


@pytest.mark.parametrize("scale", [1e-3, 0.5, 40.0])
def test_scaling_g_scales_only_the_restoring_part_of_the_norm_barrier(scale: float) -> None:
    """g → sg with α → α/s leaves θ^(T) as it is, so q̂ → sq̂ and ∇q̂ → s∇q̂.

    Where λ > 0, δ = ∇f − (⟨∇f, ∇q̂⟩ / ‖∇q̂‖²)∇q̂ + η∇q̂ for φ = η‖∇q̂‖²: the projection of ∇f is scale-free, the
    restoring part η∇q̂ scales, so δ_s − δ = η(s − 1)∇q̂. For φ = ηq̂ the restoring part is (ηq̂ / ‖∇q̂‖²)∇q̂, which is
    scale-free too: δ_s = δ.
    """
    instance = quadratic_instance()
    plain = quadratic().problem
    scaled = Problem(
        instance.outer,
        lambda v, theta, batch: scale * instance.inner(v, theta),
        torch.zeros_like(instance.b),
        torch.zeros_like(instance.a),
    )
    active = 0
    for v, theta in _random_points(instance, 100):
        df, dq = _gradients(instance, v, theta, steps=10)
        if df @ dq >= 0:  # λ > 0 at every scale needs ⟨∇f, ∇q̂⟩ < 0
            continue
        active += 1
        for phi in ("norm", "gap"):
            before = _direction(plain, BOME(GradientDescent(ALPHA), eta=ETA, phi=phi), v, theta)
            after = _direction(scaled, BOME(GradientDescent(ALPHA / scale), eta=ETA, phi=phi), v, theta)
            assert before.info.q is not None
            torch.testing.assert_close(after.info.q, scale * before.info.q, rtol=1e-12, atol=0)
            change = torch.cat(after.direction.v + after.direction.theta)
            change = change - torch.cat(before.direction.v + before.direction.theta)
            expected = ETA * (scale - 1) * dq if phi == "norm" else torch.zeros_like(dq)
            torch.testing.assert_close(change, expected, rtol=1e-12, atol=1e-12)
    assert active > 10


@pytest.mark.parametrize("eta", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("steps", [1, 10, 100])
def test_the_direction_on_the_bilinear_problem_is_piecewise_linear(steps: int, eta: float) -> None:
    """f = vθ, g = −vθ: θ^(T) = θ + cv, c = αT, so ∇q̂ = (cv, −v), ‖∇q̂‖² = v²/s, s = 1/(1 + c²).

    λ = η − s(cθ/v − 1), which is positive iff θ/v < (η + s)/(cs), and then δ = M(v, θ) with
    M = [[c(η + s), s], [1 − η − s, cs]], det M = η; else δ = ∇f = (θ, v).
    """
    problem = minimax("paper").problem
    method = BOME(GradientDescent(ALPHA, steps), eta=eta)
    c = ALPHA * steps
    s = 1 / (1 + c**2)
    m = torch.tensor([[c * (eta + s), s], [1 - eta - s, c * s]], dtype=torch.float64)
    assert float(torch.linalg.det(m)) == pytest.approx(eta, abs=1e-14)
    pieces = set()
    for v, theta in 4 * torch.randn(50, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64):
        linear = bool(theta / v < (eta + s) / (c * s))
        pieces.add(linear)
        step = _direction(problem, method, v, theta)
        expected = m @ torch.stack([v, theta]) if linear else torch.stack([theta, v])
        torch.testing.assert_close(torch.stack(step.direction.v + step.direction.theta), expected, rtol=0, atol=1e-12)
    assert pieces == {True, False}
