"""The batteries catch what they are there to catch, and `hypergradcheck` tells right directions from wrong ones."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from bome import BOME, Batches, GradientDescent, Problem, hypergradcheck, testing
from bome._typing import State
from bome.core.barrier import Metric
from bome.core.trees import Pair, axpy, scale, sub
from bome.errors import ProblemError, UnsupportedError
from bome.inner import InnerMap
from bome.methods import F2SA, ITD, MEHA, OGDA, PBGD, SABA, SOBA, Penalty
from bome.methods.aid_cg import AIDCG
from bome.methods.aid_fp import AIDFP
from bome.methods.base import Info, Method, Step
from bome.methods.bsg1 import BSG1
from bome.methods.darts import DARTS
from bome.methods.mrbo import MRBO
from bome.methods.reverse import Reverse
from bome.methods.stocbio import StocBiO
from bome.oracles import Oracle
from bome.tasks import lls, quadratic, quadratic_instance, sine
from bome.testing.hypergradients import HypergradReport
from tests.support.problems import EXAMPLES

# --- check_method -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plain(Method):
    """Inner steps, then v along f_v: as simple as a method can be."""

    inner: InnerMap = field(default_factory=lambda: GradientDescent(0.1, 2))

    name: ClassVar[str] = "plain"

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        theta = oracle.descend(point.v, point.theta, self.inner, batches.inner)
        f = oracle.outer(point.v, theta, batches.outer[0])
        return Step(Pair(f.grad.v, ()), state, Info(f.value), new_theta=theta)


def test_a_simple_method_passes_as_an_instance_as_a_class_and_as_a_function() -> None:
    testing.check_method(Plain(GradientDescent(0.05, 2)))
    quick = testing.check_info_is_scalars_without_graph
    testing.run_check(quick, Plain)
    testing.run_check(quick, lambda settings: Plain(GradientDescent(settings.inner_lr, 1)))


class Thawed(Plain):
    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


class WritesToTheta(Plain):
    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        point.theta[0].mul_(0.5)
        return step


class DrawsNumbers(Plain):
    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        noise = tuple(1e-3 * torch.randn_like(x) for x in step.direction.v)
        return step._replace(direction=Pair(sub(step.direction.v, noise), ()))


class KeepsLists(Plain):
    def init(self, oracle: Oracle, point: Pair) -> State:
        return {"old": list(point.theta)}  # type: ignore[dict-item]


class GrowsState(Plain):
    def init(self, oracle: Oracle, point: Pair) -> State:
        return {"old": (torch.zeros(()),)}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        return step._replace(state={"old": (*state["old"], torch.zeros(()))})


class KeepsLiveTensors(Plain):
    def init(self, oracle: Oracle, point: Pair) -> State:
        return {"v": point.v}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        return super().step(oracle, point, state, batches, metric)._replace(state={"v": point.v})


class WrongPrecision(Plain):
    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        return step._replace(direction=Pair(tuple(x.float() for x in step.direction.v), ()))


class VectorInfo(Plain):
    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        return step._replace(info=Info(step.info.f, q=step.info.f[None]))


class MovesThetaTwice(Plain):
    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        return step._replace(direction=Pair(step.direction.v, point.theta))


_kept: list[Any] = []


class KeepsTensors(Plain):
    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        _kept.append([x.clone() for x in step.direction.v])
        return step


class KeepsGraph(Plain):
    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        with torch.enable_grad():
            _kept.append([x.clone().requires_grad_().square().sum() for x in step.direction.v])
        return step


class CountsOn(Plain):
    def init(self, oracle: Oracle, point: Pair) -> State:
        return {"k": (torch.zeros((), dtype=torch.float64),)}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        (k,) = state["k"]
        for _ in range(int(k)):
            oracle.outer(*point, batches.outer[0])
        return super().step(oracle, point, state, batches, metric)._replace(state={"k": (k + 1,)})


class MisdeclaresCost(Plain):
    @property
    def cost(self) -> dict[str, int]:
        return {"g": 1, "f": 1}


class FirstLeafOnly(Plain):
    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        first, *others = step.direction.v
        return step._replace(direction=Pair((first, *(0 * x for x in others)), ()))


class HidesNaN(Plain):
    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        info = Info(torch.nan_to_num(step.info.f))
        clean = tuple(torch.nan_to_num(x) for x in step.direction.v)
        return Step(Pair(clean, ()), state, info, tuple(torch.nan_to_num(x) for x in step.new_theta or ()))


class DividesByZero(Plain):
    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        g = oracle.inner(point.v, point.theta, batches.inner[0], "theta").grad.theta
        size = sum(float(x.norm()) for x in g)
        return step._replace(direction=Pair(tuple(x / torch.tensor(size) for x in step.direction.v), ()))


class Remembers(Plain):
    calls: ClassVar[list[int]] = []

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        self.calls.append(1)
        return step._replace(direction=Pair(scale(1.0 + 0.1 * len(self.calls), step.direction.v), ()))


class Boasts(Plain):
    settles: ClassVar[Any] = "solution"


class Shouts(Plain):
    name: ClassVar[str] = "PLAIN METHOD"


@dataclass(frozen=True)
class AcceptsAnything(Plain):
    rate: float = 1.0


BROKEN: list[tuple[type[Method], str]] = [
    (Thawed, "check_is_a_frozen_record"),
    (WritesToTheta, "check_arguments_are_left_alone"),
    (WritesToTheta, "check_a_step_can_be_repeated"),
    (DrawsNumbers, "check_random_numbers_are_left_alone"),
    (DrawsNumbers, "check_two_runs_are_equal"),
    (KeepsLists, "check_state_keeps_its_form"),
    (GrowsState, "check_state_keeps_its_form"),
    (KeepsLiveTensors, "check_state_has_memory_of_its_own"),
    (WrongPrecision, "check_direction_has_the_form_of_the_variables"),
    (WrongPrecision, "check_precisions"),
    (VectorInfo, "check_info_is_scalars_without_graph"),
    (MovesThetaTwice, "check_direction_has_the_form_of_the_variables"),
    (KeepsTensors, "check_graphs_are_freed"),
    (KeepsGraph, "check_graphs_are_freed"),
    (CountsOn, "check_cost_is_the_same_in_every_period"),
    (MisdeclaresCost, "check_cost_is_the_same_in_every_period"),
    (FirstLeafOnly, "check_form_of_variables_does_not_matter"),
    (HidesNaN, "check_nan_is_reported_and_undone"),
    (DividesByZero, "check_inner_solution_as_start"),
    (Remembers, "check_two_runs_are_equal"),
    (Boasts, "check_settles_where_it_says"),
    (Shouts, "check_declares_itself"),
    (AcceptsAnything, "check_refuses_nonsense"),
]


@pytest.mark.parametrize(("broken", "name"), BROKEN, ids=lambda x: getattr(x, "__name__", x))
def test_a_broken_method_fails_the_check_that_is_there_for_it(broken: type[Method], name: str) -> None:
    check = next(check for check in testing.METHOD_CHECKS if check.__name__ == name)
    with pytest.raises(AssertionError, match=f"fails {name}: "):
        testing.run_check(check, broken)
    _kept.clear()


def test_check_method_stops_at_the_first_failure_and_names_it() -> None:
    with pytest.raises(AssertionError, match="plain fails check_"):
        testing.check_method(WrongPrecision)


def test_there_are_at_least_25_checks_each_with_a_docstring_and_a_name_of_its_own() -> None:
    checks = (*testing.METHOD_CHECKS, *testing.PROBLEM_CHECKS)
    assert len(testing.METHOD_CHECKS) >= 25
    assert all(check.__doc__ for check in checks)
    assert len({check.__name__ for check in checks}) == len(checks)
    defined = {name for name in vars(testing) if name.startswith("check_")}
    assert defined - {"check_method", "check_problem"} == {check.__name__ for check in checks}


# --- check_problem ----------------------------------------------------------------------------------------------------


def _made(outer: Callable[..., Tensor] | None = None, inner: Callable[..., Tensor] | None = None) -> Problem:
    return Problem(
        outer or (lambda v, theta, batch: (theta - 1).square().sum() + v.square().sum()),
        inner or (lambda v, theta, batch: (theta - v).square().sum()),
        torch.ones(2, dtype=torch.float64),
        torch.zeros(2, dtype=torch.float64),
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_sound_problems_pass_and_are_left_as_they_were(name: str) -> None:
    problem = EXAMPLES[name]().problem
    before = [x.clone() for x in problem.point.v + problem.point.theta]
    testing.check_problem(problem)
    assert all(torch.equal(x, y) for x, y in zip(before, problem.point.v + problem.point.theta, strict=True))
    assert testing.second_order_possible(problem)


def test_a_broken_problem_fails_the_check_that_is_there_for_it() -> None:
    calls: list[int] = []

    def drifting(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        calls.append(1)
        return (theta - v).square().sum() * len(calls)

    def detached(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return (theta - v).square().sum() + theta.detach().pow(3).sum() + v.detach().exp().sum()

    cases = {
        "check_losses_are_finite": _made(outer=lambda v, theta, batch: (theta - theta).sqrt().sum() / 0),
        "check_losses_are_functions": _made(inner=drifting),
        "check_variables_matter": _made(inner=lambda v, theta, batch: theta.square().sum()),
        "check_gradients_are_derivatives": _made(inner=detached),
    }
    for name, problem in cases.items():
        with pytest.raises(AssertionError, match=f"fails {name}"):
            testing.check_problem(problem)


def test_a_loss_that_writes_to_its_batch_is_caught() -> None:
    def inner(v: Tensor, theta: Tensor, batch: Tensor) -> Tensor:
        value = (theta - v).square().sum() + 0 * batch.sum()
        batch.mul_(2)
        return value

    with pytest.raises(AssertionError, match="check_losses_write_to_nothing"):
        testing.check_problem(_made(inner=inner), Batches((torch.ones(2, dtype=torch.float64),), (None,)))


# --- hypergradcheck ---------------------------------------------------------------------------------------------------

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
    report = hypergradcheck(method, made.problem, hypergradient=lambda v: (made.hypergradient,), theta_lr=made.lr)
    assert report.exact
    assert report.relative_error <= 1e-6
    assert report.cosine == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("example", EXAMPLES)
def test_finite_differences_find_the_hypergradient_to_1e_8(example: str) -> None:
    made = EXAMPLES[example]()
    report = hypergradcheck(AIDCG(GradientDescent(made.lr, 1), K=30), made.problem)
    assert report.exact
    assert float((report.hypergradient - made.hypergradient).norm() / made.hypergradient.norm()) <= 1e-8


def _quadratic(method: Method, **options: Any) -> HypergradReport:
    instance = quadratic_instance()
    problem = quadratic(start="b").problem
    return hypergradcheck(method, problem, hypergradient=lambda v: (instance.exact_hypergradient(v[0]),), **options)


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
    report = hypergradcheck(OGDA(), problem)
    assert report.exact
    assert float(report.hypergradient) == pytest.approx(3, rel=1e-9)


@pytest.mark.parametrize("method", [DARTS(GradientDescent(0.2, 10)), BSG1(GradientDescent(0.2, 10))])
def test_methods_that_are_biased_by_construction_are_told(method: Method) -> None:
    report = _quadratic(method)
    assert not report.ok
    assert report.relative_error > 0.1
    assert "does not fall with 2T" in report.verdict
    assert "biased by construction" in report.verdict


def test_darts_is_exact_where_the_curvature_is_one() -> None:
    report = hypergradcheck(DARTS(GradientDescent(0.5, 3)), quadratic("isotropic", start="b").problem)
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
    report = hypergradcheck(method, made.problem, hypergradient=lambda v: (made.hypergradient,))
    assert not report.ok
    assert "wrong" in report.verdict
    if kind is Flipped:
        assert report.cosine < 0


def test_the_inner_problem_is_solved_from_anywhere_and_the_problem_left_alone() -> None:
    made = EXAMPLES["mlp"]()
    exact = hypergradcheck(AIDCG(GradientDescent(made.lr, 1), K=40), made.problem).hypergradient
    for leaf in made.problem.point.theta:
        leaf.add_(0.05)
    before = [x.clone() for x in made.problem.point.theta]
    report = hypergradcheck(AIDCG(GradientDescent(made.lr, 1), K=40), made.problem)
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
    report = hypergradcheck(AIDCG(GradientDescent(0.2, 1)), quadratic().problem, point)
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
    report = hypergradcheck(AIDCG(GradientDescent(0.5, 1)), problem)
    assert len(report.direction) == 32
    assert report.exact


def test_the_report_can_be_read() -> None:
    text = str(_quadratic(BOME(GradientDescent(0.2, 10))))
    for part in ("hypergradcheck of bome beside θ*(v)", "relative error", "cosine", "finite T", "O(1/λ)"):
        assert part in text


def test_what_cannot_be_checked_is_refused_in_words() -> None:
    method = AIDCG(GradientDescent(0.1, 1))
    with pytest.raises(ProblemError, match="needs float64"):
        hypergradcheck(method, quadratic(dtype=torch.float32).problem)
    with pytest.raises(ProblemError, match="give solve_inner"):
        hypergradcheck(method, lls().problem)
    with pytest.raises(UnsupportedError, match="min-max"):
        hypergradcheck(OGDA(), quadratic().problem)


def test_a_given_inner_solver_chooses_the_basin() -> None:
    """On the sine task f(v, θ◇(v)) = (v − a)² + n(C − v − a)² with C the trough of the basin: see `sine`."""
    task = sine(start="eight")
    report = hypergradcheck(AIDCG(GradientDescent(0.3, 1)), task.problem, solve_inner=task.solve_inner)
    assert report.exact


def test_a_method_with_other_settings_is_another_report() -> None:
    rough = _quadratic(ITD(GradientDescent(0.2, 2)))
    fine = _quadratic(replace(ITD(GradientDescent(0.2, 2)), inner=GradientDescent(0.2, 20)))
    assert fine.relative_error < rough.relative_error
    assert rough.errors[1] == pytest.approx(_quadratic(ITD(GradientDescent(0.2, 4))).relative_error, rel=1e-9)
