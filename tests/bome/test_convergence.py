"""Where BOME ends: on problems with known solutions, with the paper's step sizes."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import scipy.optimize
import torch
from torch import Tensor
from torch.func import vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR

from bome import BOME, AutogradOracle, Batches, FuncOracle, GradientDescent, Problem, Stepper
from bome._typing import State
from bome.certificate import stationarity_at
from bome.core.barrier import Metric, euclidean, kkt_gradient
from bome.core.trees import Pair
from bome.methods.base import Info, Method, Step
from bome.oracles import Oracle
from bome.tasks import Task, coreset, lls, minimax, quadratic, quadratic_instance, sine

Schedule = Callable[[int], float]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Tensors of a few entries: more threads only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def _constant(k: int) -> float:
    return 1.0


def _falling(start: float) -> Schedule:
    """The factor min(1, √(start / (k + 1)))."""
    return lambda k: min(1.0, math.sqrt(start / (k + 1)))


def _stepper(problem: Problem, task: Task, method: Method, schedule: Schedule) -> tuple[Stepper, list[LambdaLR]]:
    outer_opt = SGD(problem.v.leaves, lr=task.settings.outer_lr)
    inner_opt = SGD(problem.theta.leaves, lr=task.settings.theta_lr)
    schedulers = [LambdaLR(optimiser, schedule) for optimiser in (outer_opt, inner_opt)]
    return Stepper(problem, method, outer_opt, inner_opt), schedulers


def _bome(task: Task) -> BOME:
    settings = task.settings
    return BOME(GradientDescent(settings.inner_lr, settings.inner_steps), eta=settings.eta, phi=settings.phi)


@dataclass(frozen=True)
class Rows(Method):
    """A method on each row of stacked variables, as if each were alone; its step is traced once.

    Long runs from several starts then cost little more than one, without the cost of building graphs at every step.
    """

    method: Method
    problem: Problem
    step_size: Metric
    trace: dict[str, Callable[..., Any]]

    name: ClassVar[str] = "rows"

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One step of every row."""
        if "step" not in self.trace:
            single = FuncOracle(self.problem)

            def one(v: Tensor, theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
                step = self.method.step(single, Pair((v,), (theta,)), {}, batches, self.step_size)
                return step.direction.v[0], step.direction.theta[0], step.info.f

            graph = make_fx(vmap(one))(point.v[0], point.theta[0])
            graph.graph.eliminate_dead_code()
            graph.recompile()
            self.trace["step"] = graph
        v, theta, f = self.trace["step"](point.v[0], point.theta[0])
        return Step(Pair((v,), (theta,)), state, Info(f.sum()))


def _ends(tasks: Sequence[Task], steps: int, schedule: Schedule) -> list[Pair]:
    """Where BOME ends from the start of each task, by one `Stepper` over stacked variables.

    The tasks differ in their starts only.
    """
    problem = tasks[0].problem
    starts = [task.problem.point for task in tasks]
    stacked = Problem(
        lambda v, theta, batch: vmap(problem.outer, in_dims=(0, 0, None))(v, theta, batch).sum(),
        lambda v, theta, batch: vmap(problem.inner, in_dims=(0, 0, None))(v, theta, batch).sum(),
        torch.stack([point.v[0] for point in starts]),
        torch.stack([point.theta[0] for point in starts]),
    )
    rows = Rows(_bome(tasks[0]), problem, Metric((1.0,), (1.0,)), {})
    stepper, schedulers = _stepper(stacked, tasks[0], rows, schedule)
    for _ in range(steps):
        stepper.step()
        for scheduler in schedulers:
            scheduler.step()
    v, theta = stacked.point
    return [Pair((v[0][i],), (theta[0][i],)) for i in range(len(tasks))]


def _distances(tasks: Sequence[Task], ends: Sequence[Pair]) -> list[float]:
    return [task.optimum.distance(end) for task, end in zip(tasks, ends, strict=True) if task.optimum is not None]


@pytest.mark.parametrize("make", [coreset, quadratic, sine])
def test_rows_step_as_a_stepper_alone(make: Callable[..., Task]) -> None:
    """The shortcut of the tests below is the method itself: same iterates as the plain `Stepper`."""
    task = make()
    (end,) = _ends([make()], 20, _falling(5))
    stepper, schedulers = _stepper(task.problem, task, _bome(task), _falling(5))
    for _ in range(20):
        stepper.step()
        for scheduler in schedulers:
            scheduler.step()
    torch.testing.assert_close(end, task.problem.point, rtol=0, atol=1e-12)


def test_coreset_ends_near_the_optimum_from_every_start() -> None:
    """Constant ξ = α = 0.05, T = 10, η = 0.5, 5,000 steps and exact λ: within 0.03 of θ* = (1.8, 0.4).

    What remains is the bias of a constant step size, O(ξ).
    """
    tasks = [coreset(start=start) for start in ("a", "b", "c")]
    settings = tasks[0].settings
    assert (settings.outer_lr, settings.theta_lr, settings.inner_lr) == (0.05, 0.05, 0.05)
    assert (settings.inner_steps, settings.eta) == (10, 0.5)
    distances = _distances(tasks, _ends(tasks, 5000, _constant))
    assert max(distances) <= 0.03, distances


@pytest.mark.slow
def test_coreset_comes_nearer_with_falling_steps() -> None:
    """ξ_k = 0.05 min(1, √(1000/(k + 1))), α = 0.05, 20,000 steps: the bias falls with ξ, below 0.012."""
    tasks = [coreset(start=start) for start in ("a", "b", "c")]
    distances = _distances(tasks, _ends(tasks, 20_000, _falling(1000)))
    assert max(distances) < 0.012, distances


def test_minimax_follows_its_closed_form() -> None:
    """Two hundred steps from (4, 4) with ξ = α = 0.05, T = 10, η = 0.5.

    With c = αT = ½ and s = 1/(1 + c²) = 0.8, δ = M(v, θ), M = [[c(η + s), s], [1 − η − s, cs]], where
    θ/v < (η + s)/(cs) = 3.25, that is where λ > 0; else δ = (θ, v). Thirteen of the steps have λ = 0.
    """
    task = minimax("paper")
    stepper, _ = _stepper(task.problem, task, _bome(task), _constant)
    m = torch.tensor([[0.65, 0.8], [-0.3, 0.4]], dtype=torch.float64)
    x = torch.tensor([4.0, 4.0], dtype=torch.float64)
    inactive = 0
    for k in range(200):
        linear = bool(x[1] / x[0] < 3.25)
        inactive += not linear
        x = x - 0.05 * (m @ x if linear else x.flip(0))
        stepper.step()
        ours = torch.stack(task.problem.point.v + task.problem.point.theta)
        assert float((ours - x).abs().max()) <= 1e-10, f"step {k}"
    assert inactive == 13


@pytest.mark.parametrize("variant", ["code", "corrected"])
def test_lls_reaches_its_solution(variant: str) -> None:
    """Within 1e-5 of v = 1, θ = (1, 1), although θ_2 is free in the inner problem."""
    task = lls(variant)
    stepper, _ = _stepper(task.problem, task, _bome(task), _constant)
    for _ in range(task.settings.steps):
        stepper.step()
    assert task.optimum is not None
    assert task.optimum.distance(task.problem.point) <= 1e-5


def _attraction_kkt(task: Task, point: Pair) -> float:
    """𝒦◇ at a point: q and ∇q measured from the minimum of the basin that θ lies in."""
    assert task.solve_inner is not None
    end = task.solve_inner(*point)
    return stationarity_at(AutogradOracle(task.problem), point, end, Batches()).kkt


def test_sine_becomes_stationary_in_every_basin(record_property: Callable[[str, object], None]) -> None:
    """T = 50, α = 0.3, ξ = 0.05 from (3,3,3), (0,0,0), (8,8,8): 𝒦◇ ≤ 1e-6 at the end, in three different basins.

    From (0,0,8) the coordinates of θ lie in different basins and a constant step leaves an O(ξ) bias: reported only.
    """
    tasks = [sine(start=start) for start in ("three", "zero", "eight", "mixed")]
    settings = tasks[0].settings
    assert (settings.inner_steps, settings.inner_lr, settings.outer_lr, settings.theta_lr) == (50, 0.3, 0.05, 0.05)
    ends = _ends(tasks, settings.steps, _constant)
    *kkt, mixed = (_attraction_kkt(task, end) for task, end in zip(tasks, ends, strict=True))
    record_property("kkt", kkt)
    record_property("kkt_mixed", mixed)
    assert max(kkt) <= 1e-6, kkt
    assert math.isfinite(mixed)
    # v of the local solution of basin k is ((1 − n)a + nC)/(1 + n) with C = −π/2 + 2kπ: here (2C − 2)/3, k = 1, 0, 2.
    for end, k in zip(ends, (1, 0, 2), strict=False):
        assert float(end.v[0]) == pytest.approx((2 * (2 * k - 0.5) * math.pi - 2) / 3, abs=1e-3)


@pytest.mark.parametrize("steps", [2000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_quadratic_settles_where_finite_t_says(steps: int) -> None:
    """‖f_v + Aᵀ(I − P)f_θ‖ ≤ 1e-3, P = (I − αH)^T, after 20,000 steps of ξ_k = 0.2/√(k + 1), and already before."""
    task = quadratic()
    settings = task.settings
    assert (settings.outer_lr, settings.theta_lr, settings.decay, settings.steps) == (0.2, 0.2, 1.0, 20_000)
    (end,) = _ends([task], steps, _falling(settings.decay))
    residual = quadratic_instance().residual(end.v[0], end.theta[0], settings.inner_steps, settings.inner_lr)
    assert residual <= 1e-3, residual


def test_the_closed_form_of_kkt_is_the_minimum_over_the_multiplier() -> None:
    """min_{λ≥0} ‖∇f + λ∇q‖² against a search over λ; it is ‖∇f‖² exactly where ⟨∇f, ∇q⟩ ≥ 0."""
    generator = torch.Generator().manual_seed(0)
    blocked = 0
    for _ in range(100):
        df, dq = (torch.randn(5, generator=generator, dtype=torch.float64) for _ in range(2))
        closed = float(kkt_gradient(euclidean(Pair((df[:2],), (df[2:],)), Pair((dq[:2],), (dq[2:],)))))

        def squared(lam: float, df: Tensor = df, dq: Tensor = dq) -> float:
            return float((df + lam * dq).square().sum())

        # The unconstrained minimiser is at most ‖∇f‖/‖∇q‖, so the bracket holds it.
        bracket = (0.0, float(2 * df.norm() / dq.norm()))
        found = scipy.optimize.minimize_scalar(squared, bounds=bracket, method="bounded", options={"xatol": 1e-10})
        if df @ dq >= 0:
            blocked += 1
            assert closed == pytest.approx(float(df @ df), rel=1e-14)
        assert closed == pytest.approx(min(found.fun, squared(0.0)), rel=1e-9)
    assert 20 < blocked < 80
