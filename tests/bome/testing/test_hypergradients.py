"""`hypergradcheck` tells right directions from wrong ones."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from bome import BOME, Batches, GradientDescent, Problem, hypergradcheck
from bome._typing import State
from bome.core.barrier import Metric
from bome.core.trees import Pair, axpy, scale, sub
from bome.errors import ProblemError, UnsupportedError
from bome.methods import F2SA, ITD, MEHA, OGDA, PBGD, SABA, SOBA, Penalty
from bome.methods.aid_cg import AIDCG
from bome.methods.aid_fp import AIDFP
from bome.methods.base import Method, Step
from bome.methods.darts import DARTS
from bome.methods.mrbo import MRBO
from bome.methods.reverse import Reverse
from bome.methods.stocbio import StocBiO
from bome.oracles import Oracle
from bome.tasks import lls, quadratic, quadratic_instance, sine
from bome.testing import HypergradReport
from tests.support.problems import EXAMPLES

Make = Callable[[float, int], Method]


CONVERGED: dict[str, Make] = {
    "itd": lambda lr, n: ITD(GradientDescent(lr, n)),
    "reverse": lambda lr, n: Reverse(GradientDescent(lr, n), K=n),
    "aid-cg": lambda lr, n: AIDCG(GradientDescent(lr, 1), K=30),
    "aid-fp": lambda lr, n: AIDFP(GradientDescent(lr, 1), K=n),
    "stocbio": lambda lr, n: StocBiO(GradientDescent(lr, 1), Q=n, draw="one"),
    "mrbo": lambda lr, n: MRBO(Q=n, neumann_lr=lr, draw="one"),
    "soba": lambda lr, n: SOBA(),
    "saba": lambda lr, n: SABA(),
    "bome": lambda lr, n: BOME(GradientDescent(lr, n)),
    "pbgd": lambda lr, n: PBGD(GradientDescent(lr, n), gamma=3.0),
}


@pytest.mark.parametrize("name", CONVERGED)
@pytest.mark.parametrize("example", EXAMPLES)
def test_a_converged_direction_is_the_hypergradient_to_1e_6(example: str, name: str) -> None:
    """With n terms a share (1 − αμ)^n of 1e-8 of the bias is left."""
    made = EXAMPLES[example]()
    method = CONVERGED[name](made.lr, math.ceil(math.log(1e-8) / math.log(1 - made.lr * made.mu)))
    report = hypergradcheck(made.problem, method, hypergradient=lambda v: (made.hypergradient,), theta_lr=made.lr)
    assert report.exact
    assert report.relative_error <= 1e-6
    assert report.cosine == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("example", EXAMPLES)
def test_finite_differences_find_the_hypergradient_to_1e_8(example: str) -> None:
    made = EXAMPLES[example]()
    report = hypergradcheck(made.problem, AIDCG(GradientDescent(made.lr, 1), K=30))
    assert report.exact
    assert float((report.hypergradient - made.hypergradient).norm() / made.hypergradient.norm()) <= 1e-8


def _quadratic(method: Method, **options: Any) -> HypergradReport:
    instance = quadratic_instance()
    problem = quadratic(start="b").problem
    return hypergradcheck(problem, method, hypergradient=lambda v: (instance.exact_hypergradient(v[0]),), **options)


def test_the_bias_of_a_finite_T_is_the_predicted_one_and_vanishes() -> None:  # noqa: N802
    """ITD at θ*(v) gives f_v + Aᵀ(I − P)f_θ, so that the error is ‖AᵀPf_θ‖, P = (I − αH)^T."""
    instance, v = quadratic_instance(), torch.ones(3, dtype=torch.float64)
    p = torch.linalg.matrix_power(torch.eye(4, dtype=torch.float64) - 0.2 * instance.H, 10)
    predicted = (instance.A.T @ p @ (instance.A @ v - instance.a)).norm() / instance.exact_hypergradient(v).norm()
    for method in (ITD(GradientDescent(0.2, 10)), BOME(GradientDescent(0.2, 10)), PBGD(GradientDescent(0.2, 10))):
        report = _quadratic(method)
        assert report.relative_error == pytest.approx(float(predicted), rel=1e-6)
        assert report.ok
        assert not report.exact
        assert "the bias is that of a finite T" in report.verdict


def test_the_bias_of_f2sa_is_the_predicted_one_and_falls_like_one_over_lambda() -> None:
    """The direction is f_v + Aᵀ(I + H⁻¹/λ)⁻¹f_θ(z), as y − z = −(λH + I)⁻¹f_θ(z)."""
    instance, v, lam = quadratic_instance(), torch.ones(3, dtype=torch.float64), 50.0
    one = torch.eye(4, dtype=torch.float64)
    z = instance.A @ v
    share = torch.linalg.inv(one + torch.linalg.inv(instance.H) / lam)
    expected = v - instance.b + instance.A.T @ share @ (z - instance.a)
    report = _quadratic(Penalised(GradientDescent(0.2, 10), lam=lam))
    torch.testing.assert_close(report.direction, expected, rtol=1e-9, atol=1e-12)
    assert report.vanishes
    assert "O(1/λ)" in report.verdict
    assert all(b == pytest.approx(a / 2, rel=0.1) for a, b in zip(report.errors, report.errors[1:], strict=False))


@dataclass(frozen=True)
class Penalised(F2SA):
    settles: ClassVar[Any] = "penalty"
    accuracy: ClassVar[tuple[str, ...]] = ("lam",)


@dataclass(frozen=True)
class Moreau(MEHA):
    settles: ClassVar[Any] = "penalty"
    accuracy: ClassVar[tuple[str, ...]] = ("c", "gamma")


def test_meha_is_parallel_to_the_hypergradient_up_to_O_of_one_over_c() -> None:  # noqa: N802
    report = _quadratic(Moreau(inner_lr=0.3, c=50.0, gamma=1e4, p=0.0), theta_lr=0.3)
    assert report.cosine > 0.9999
    assert report.factor == pytest.approx(1 / 50, rel=0.05)
    assert report.vanishes


def test_penalty_is_biased_by_O_of_one_over_gamma() -> None:  # noqa: N802
    """With ν = λ = 0 and v held: f_θ + γH²r = 0, so the direction is f_v + AᵀH⁻¹H f_θ(θ) at θ = θ* + r, r = O(1/γ)."""
    errors = []
    for gamma in (50.0, 100.0, 200.0):
        method = Penalty(GradientDescent(0.2, 100), lam=0.0, nu=0.0, gamma=gamma, epsilon=1e-9)
        errors.append(_quadratic(method, theta_lr=0.4 / gamma, rtol=1.0).relative_error)  # no doubling
    assert errors[0] < 0.1
    assert errors[1] == pytest.approx(errors[0] / 2, rel=0.1)
    assert errors[2] == pytest.approx(errors[1] / 2, rel=0.1)


def test_ogda_is_checked_on_a_saddle_problem() -> None:
    """f = ½v² + vθ − ½θ²: θ*(v) = v and F = v², so dF/dv = 2v."""

    def outer(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return 0.5 * v.square() + v * theta - 0.5 * theta.square()

    start = torch.tensor(1.5, dtype=torch.float64)
    problem = Problem(outer, lambda v, theta, batch: -outer(v, theta, batch), start, torch.zeros_like(start))
    report = hypergradcheck(problem, OGDA())
    assert report.exact
    assert float(report.hypergradient) == pytest.approx(3, rel=1e-9)


def test_darts_is_exact_where_the_curvature_is_one() -> None:
    report = hypergradcheck(quadratic("isotropic", start="b").problem, DARTS(GradientDescent(0.5, 3)))
    assert report.exact


@dataclass(frozen=True)
class Flipped(ITD):
    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        return step._replace(direction=Pair(scale(-1.0, step.direction.v), ()))


@dataclass(frozen=True)
class WithoutDirectPart(ITD):
    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        f = oracle.outer(point.v, step.new_theta or (), batches.outer[0])
        return step._replace(direction=Pair(sub(step.direction.v, f.grad.v), ()))


@dataclass(frozen=True)
class WrongFactor(ITD):
    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        f = oracle.outer(point.v, step.new_theta or (), batches.outer[0])
        implicit = sub(step.direction.v, f.grad.v)
        return step._replace(direction=Pair(axpy(1.1, implicit, f.grad.v), ()))


@dataclass(frozen=True)
class WrongBarrier(BOME):
    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        f = oracle.outer(*point, batches.outer[0])
        return step._replace(direction=Pair(axpy(0.9, sub(step.direction.v, f.grad.v), f.grad.v), step.direction.theta))


@pytest.mark.parametrize("kind", [Flipped, WithoutDirectPart, WrongFactor, WrongBarrier])
@pytest.mark.parametrize(("example", "steps"), [*((name, 5) for name in EXAMPLES), ("quadratic", 100)])
def test_a_wrong_method_is_caught_with_few_inner_steps_and_with_many(example: str, steps: int, kind: Any) -> None:
    made = EXAMPLES[example]()
    method = kind(GradientDescent(made.lr, steps))
    report = hypergradcheck(made.problem, method, hypergradient=lambda v: (made.hypergradient,))
    assert not report.ok
    assert "wrong" in report.verdict
    if kind is Flipped:
        assert report.cosine < 0


def test_the_inner_problem_is_solved_from_anywhere_and_the_problem_left_alone() -> None:
    made = EXAMPLES["mlp"]()
    exact = hypergradcheck(made.problem, AIDCG(GradientDescent(made.lr, 1), K=40)).hypergradient
    for leaf in made.problem.point.theta:
        leaf.add_(0.05)
    before = [x.clone() for x in made.problem.point.theta]
    report = hypergradcheck(made.problem, AIDCG(GradientDescent(made.lr, 1), K=40))
    torch.testing.assert_close(report.hypergradient, exact, rtol=1e-7, atol=1e-9)
    assert all(torch.equal(x, y) for x, y in zip(before, made.problem.point.theta, strict=True))


def test_the_direction_can_be_taken_at_the_given_point_instead() -> None:
    """Away from θ*(v) the quadratic's implicit direction is f_v + Aᵀf_θ(θ_T), which is not dF/dv."""
    method = AIDCG(GradientDescent(1e-6, 1), K=10)
    assert _quadratic(method).exact
    assert not _quadratic(method, at="point").ok


def test_a_point_other_than_the_start_can_be_given() -> None:
    instance, v = quadratic_instance(), torch.tensor([1.0, 2.0, -1.0], dtype=torch.float64)
    point = Pair((v,), (torch.zeros(4, dtype=torch.float64),))
    report = hypergradcheck(quadratic().problem, AIDCG(GradientDescent(0.2, 1)), point)
    torch.testing.assert_close(report.hypergradient, instance.exact_hypergradient(v), rtol=1e-9, atol=1e-10)
    assert report.exact


def test_a_large_v_is_checked_in_random_directions() -> None:
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(3, 50, generator=generator, dtype=torch.float64)
    problem = Problem(
        lambda v, theta, batch: (theta - 1).square().sum() + 0.1 * v.square().sum(),
        lambda v, theta, batch: 0.5 * (theta - a @ v).square().sum(),
        torch.full((50,), 0.1, dtype=torch.float64),
        torch.zeros(3, dtype=torch.float64),
    )
    report = hypergradcheck(problem, AIDCG(GradientDescent(0.5, 1)))
    assert len(report.direction) == 32
    assert report.exact


def test_what_cannot_be_checked_is_refused_in_words() -> None:
    method = AIDCG(GradientDescent(0.1, 1))
    with pytest.raises(ProblemError, match="needs float64"):
        hypergradcheck(quadratic(dtype=torch.float32).problem, method)
    with pytest.raises(ProblemError, match="give solve_inner"):
        hypergradcheck(lls().problem, method)
    with pytest.raises(UnsupportedError, match="min-max"):
        hypergradcheck(quadratic().problem, OGDA())


def test_a_given_inner_solver_chooses_the_basin() -> None:
    """On the sine task f(v, θ◇(v)) = (v − a)² + n(C − v − a)² with C the trough of the basin: see `sine`."""
    task = sine(start="eight")
    report = hypergradcheck(task.problem, AIDCG(GradientDescent(0.3, 1)), solve_inner=task.solve_inner)
    assert report.exact
