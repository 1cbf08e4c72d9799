"""BOME with constraints: its step against SciPy, closed forms, every oracle, noise, resuming, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor
from torch.optim import SGD

import bome
from bome import Batches, GradientDescent, PerSample, Problem, Stepper
from bome.cli.main import execute
from bome.core.trees import Pair, clone, joined
from bome.errors import NonFiniteError, ProblemError, UnsupportedError
from bome.methods import BOME, BOMEQP, Batched, Compiled
from bome.runs.names import METHODS
from bome.runs.plan import plan
from bome.stopping import MaxSteps
from bome.storage import checkpoint
from tests.support.samples import NAMES, toy
from timings.constrained import Instance, solved

QP = BOMEQP(GradientDescent(0.1, 10))


def stepper(problem: Problem, oracle: Any = "auto", method: BOMEQP = QP) -> Stepper:
    return Stepper(problem, method, SGD(problem.v.leaves, 0.1), oracle=oracle)


def capped(dtype: torch.dtype = torch.float64) -> Problem:
    """min (v − 2)² + (θ₀ − 2)² under v + θ₁² ≤ 3/2, where θ₁ = −θ₀ and θ₀ would be v/2, but is at most (1 + v)/5.

    f falls with v as far as v may go: beyond v = 2/3 it is θ₀ = (1 + v)/5, and v² + 27v = 36.5 where v + θ₀² = 3/2.
    """
    return Problem(
        lambda v, theta, batch: (v - 2).square().sum() + (theta[0] - 2).square(),
        lambda v, theta, batch: (theta[0] - v).square().sum() + theta[1] ** 2,
        torch.zeros(1, dtype=dtype),
        torch.zeros(2, dtype=dtype),
        inner_constraints=lambda v, theta, batch: theta[0] - 0.2 - 0.2 * v,
        inner_equalities=lambda v, theta, batch: theta[0] + theta[1],
        outer_constraints=lambda v, theta, batch: v + theta[1] ** 2 - 1.5,
    )


@pytest.mark.parametrize("oracle", NAMES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_bounds_equalities_and_a_bent_outer_constraint_in_closed_form(oracle: Any, dtype: torch.dtype) -> None:
    problem = capped(dtype)
    taken = stepper(problem, oracle, BOMEQP(GradientDescent(0.1, 5), rate=0.8))
    for _ in range(100):
        taken.step()
    v = (-27 + (27**2 + 4 * 36.5) ** 0.5) / 2
    torch.testing.assert_close(problem.v.value, torch.tensor([v], dtype=dtype), atol=2e-3, rtol=0)
    theta = torch.tensor([1 + v, -1 - v], dtype=dtype) / 5
    torch.testing.assert_close(problem.theta.value, theta, atol=2e-3, rtol=0)


def test_a_step_is_that_of_the_box() -> None:
    """The second one, from known z and μ: SLSQP solves the quadratic problem of line 4 anew."""
    problem = toy(
        inner_constraints=lambda v, theta, batch: theta[0] + theta[1] - v[0] - 1,
        outer_constraints=lambda v, theta, batch: [v.sum() - 0.1, theta[1] - 5],
    )
    taken, oracle = stepper(problem), bome.AutogradOracle(problem)
    taken.step()
    point = Pair(*map(clone, problem.point))
    x, epsilon = joined(point), float(taken.state["epsilon"][0])
    f, g = oracle.outer(*point, None), oracle.inner(*point, None)
    info = taken.step()
    s, z = float(taken.state["sizes"][0]), taken.state["z"]
    mu = float(taken.state["inner_multipliers"][0])
    low = oracle.inner(point.v, z, None)
    c = [float(x[3] + x[4] - x[0] - 1), float(x[:3].sum() - 0.1), float(x[4] - 5)]
    rows = np.array([[-1, 0, 0, 1, 1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 1.0]])
    above = float(z[0].sum() - point.v[0][0] - 1)
    q = float(g.value - low.value) - mu * above
    dq = joined(g.grad).numpy() - np.append(low.grad.v[0].numpy(), [0, 0]) - mu * np.array([-1.0, 0, 0, 0, 0])
    assert float(info.q) == pytest.approx(q)  # type: ignore[arg-type]
    df, room = joined(f.grad).numpy(), np.array([0.9 * (epsilon - q), *(-value for value in c)])
    A = np.vstack([dq, rows])  # noqa: N806
    found = minimize(
        lambda d: d @ d / (2 * s) + df @ d, np.zeros(5), method="SLSQP", tol=1e-14,
        constraints={"type": "ineq", "fun": lambda d: room - A @ d},
    )  # fmt: skip
    step = joined(problem.point) - x
    radius = float(taken.state["sizes"][1])
    expected = found.x * min(1.0, radius / np.linalg.norm(found.x))
    np.testing.assert_allclose(step.numpy(), expected, atol=1e-5)


def test_learning_rates_cancel() -> None:
    ends = []
    for rate in (0.1, 3.0):
        problem = capped()
        taken = Stepper(problem, QP, SGD(problem.v.leaves, rate), SGD(problem.theta.leaves, rate))
        for _ in range(20):
            taken.step()
        ends.append(joined(problem.point))
    torch.testing.assert_close(ends[0], ends[1])


def test_affine_constraints_cost_one_jacobian() -> None:
    problem = toy(
        inner_constraints=lambda v, theta, batch: theta - v[:2] - 0.1,
        outer_constraints=lambda v, theta, batch: v.sum() - 0.1,
    )
    taken = stepper(problem)
    for _ in range(30):
        taken.step()
    assert taken.counts == {"f": 30, "g": 30 * 11, "rows": 3, "constraints": 0}


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_large_inner_problem_is_solved_with_noise_in_the_gradients_too(noise: float) -> None:
    """500 entries of θ, three inner constraints, in closed form; `timings/constrained.py` has 100,000."""
    outcome = solved(Instance(entries=500), noise, steps=200, seconds=600)
    assert outcome.error < (0.05 if noise else 0.02)
    assert outcome.violation < 1e-6


def test_the_closed_form_of_the_large_problem_is_right() -> None:
    """Of a small one by SciPy: θ*(v) for the v found and for v around it, none of which is better."""
    small = Instance(entries=12, seed=1)
    problem, (v, theta) = small.problem(), small.solution()
    C, a = small.numbers()[5], small.numbers()[0]  # noqa: N806
    h: Any = problem.constraints.inner_constraints

    def f(at: Tensor) -> float:
        def g(y: Any) -> float:
            return float(problem.inner(at, torch.from_numpy(y), None))

        limits = {
            "type": "ineq",
            "fun": lambda y: -h(at, torch.from_numpy(y), None).numpy(),
            "jac": lambda y: -C.numpy(),
        }
        lowest = minimize(g, a.numpy(), method="SLSQP", constraints=limits, options={"ftol": 1e-13, "maxiter": 300})
        return float(problem.outer(at, torch.from_numpy(lowest.x), None))

    here = f(v)
    assert here == pytest.approx(float(problem.outer(v, theta, None)), abs=1e-5)
    draw = torch.Generator().manual_seed(0)
    for radius in (0.01, 0.1, 1.0):
        for _ in range(10):
            assert f(v + radius * torch.randn(len(v), generator=draw, dtype=v.dtype)) > here - 1e-5


def test_a_resumed_run_is_that_without_interruption_and_its_checkpoint_holds_multipliers(tmp_path: Path) -> None:
    def run(steps: int, folder: str, resume: bool = False) -> Problem:
        problem = capped()
        record = bome.Record(tmp_path / folder, resume=resume)
        bome.run(problem, QP, outer_opt=SGD(problem.v.leaves, 0.1), stop=MaxSteps(steps), record=record)
        return problem

    whole = run(25, "whole")
    run(11, "parts")
    parts = run(25, "parts", resume=True)
    assert torch.equal(joined(whole.point), joined(parts.point))
    state = checkpoint.load_latest(tmp_path / "parts" / "checkpoints").state["state"]  # type: ignore[union-attr]
    assert len(state["multipliers"]) == 1 + 1 + 2 + 1
    assert len(state["inner_multipliers"]) == 1 + 2
    assert len(state["epsilon"]) == 1


def test_a_place_where_f_is_not_finite_is_stepped_back_from() -> None:
    """f = 10v + θ − log(v − 10⁻⁶) under v ≥ 0 with θ = v: a long step ends at 0, where f is NaN, not at 1/11."""
    v, theta = torch.ones(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    problem = Problem(
        lambda v, theta, batch: 10 * v[0] - (v[0] - 1e-6).log() + theta[0],
        lambda v, theta, batch: (theta - v).square().sum(),
        v,
        theta,
        outer_constraints=lambda v, theta, batch: -v,
    )
    taken, visited = stepper(problem, method=BOMEQP(GradientDescent(0.1, 5), rate=0.8)), []
    for _ in range(100):
        visited.append(float(v))
        assert torch.isfinite(taken.step().f)
    assert min(visited) < 1e-6
    assert float(v) == pytest.approx(1 / 11, abs=1e-3)


def test_what_is_not_finite_everywhere_is_told_in_the_end() -> None:
    problem = toy(outer_constraints=lambda v, theta, batch: v[0] - 9)
    outer, bad = problem.outer, list[bool]()
    problem.outer = lambda v, theta, batch: outer(v, theta, batch) + (float("nan") if bad else 0.0)
    taken = stepper(problem)
    taken.step()
    bad.append(True)
    for _ in range(5):
        taken.step()
    with pytest.raises(NonFiniteError, match="f at"):
        taken.step()


@pytest.mark.parametrize("name", [name for name in METHODS if name != "bome-qp"])
def test_every_other_method_refuses_constraints_in_one_line(name: str) -> None:
    with pytest.raises(UnsupportedError) as refusal:
        plan("bolib-bard1984b", name)
    assert str(refusal.value) == f"{name} takes no constraints: use the method bome-qp, or bome.solve"


@pytest.mark.parametrize("verb", ["run", "sweep"])
def test_so_do_the_verbs_before_anything_is_written(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert execute([verb, "bolib-bard1984b", "--method", "itd"]) == 2
    assert capsys.readouterr().err == "error: itd takes no constraints: use the method bome-qp, or bome.solve\n"
    assert list(tmp_path.iterdir()) == []
    assert execute([verb, "bolib-bard1984b", "--method", "bome-qp", "--set", "steps=3", "--quiet"]) == 0


def test_what_it_cannot_do_is_refused_in_one_line() -> None:
    with pytest.raises(ProblemError, match="bome-qp needs inner=GradientDescent"):
        BOMEQP(bome.AdamDescent(0.1, 3))  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="takes no projections beside constraints: write the sets"):
        stepper(toy(project_v=bome.box(0, 1), inner_constraints=lambda v, theta, batch: theta))
    table = PerSample(4)
    rows = Problem(lambda w, t, b: t.sum(), lambda w, t, b: (w.sum() * t).sum(), table, torch.ones(2))
    with pytest.raises(UnsupportedError, match="of which a PerSample has other rows: use a tensor for v"):
        Stepper(rows, QP, bome.RowSGD([table.values], 0.1))
    with pytest.raises(UnsupportedError, match="methods run as a batch; bome-qp is neither"):
        Batched(QP)
    with pytest.raises(UnsupportedError, match="its step decides by numbers it has looked at"):
        Stepper(toy(), Compiled(QP), SGD(toy().v.leaves, 0.1), oracle="func")
    assert not BOME.decides
    assert Batches().inner == (None,)
