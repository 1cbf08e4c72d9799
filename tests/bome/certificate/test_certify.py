"""Certificates against independent computations, and what they say in words."""

import json
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam

from bome import AutogradOracle, Batches, GradientDescent, Problem, Stepper
from bome.certificate import Certificate, certify, stationarity_at
from bome.data.streams import Constant, Data
from bome.loop import run
from bome.oracles import Oracle
from bome.runs.perform import perform
from bome.runs.plan import plan
from bome.stopping import MaxSteps, Progress
from bome.tasks import quadratic_instance
from tests.support.samples import NAMES, ORACLES, Name, bome, cleaning, everything, same, seeded, toy

F64 = torch.float64


def _certificate(problem: Problem, lr: float = 0.1, steps: int = 3, **options: Any) -> Certificate:
    oracle = AutogradOracle(problem)
    return certify(oracle, problem.point, GradientDescent(lr, steps), Batches(), **options)


@pytest.mark.parametrize("kind", ORACLES)
def test_a_certificate_is_what_numpy_computes_from_the_matrices(kind: type[Oracle]) -> None:
    """On g = ½(θ−Av)ᵀH(θ−Av): θ^(T) = Av + (I − αH)^T (θ − Av), ∇_v g = −AᵀH(θ − Av), ∇_θ g = H(θ − Av).

    The exact 𝒦 has θ^(∞) = Av in the place of θ^(T), with g = 0 and ∇_v g = 0 there.
    """
    instance = quadratic_instance(seed=4)
    generator = torch.Generator().manual_seed(0)
    v, theta = (torch.randn(n, generator=generator, dtype=F64) for n in (3, 4))
    problem = Problem(instance.outer, instance.inner, v.clone(), theta.clone())
    found = certify(
        kind(problem), problem.point, GradientDescent(0.1, 5), Batches(), (instance.A @ v,), lambda_zero_share=0.25
    )
    a, h, r = instance.A.numpy(), instance.H.numpy(), (theta - instance.A @ v).numpy()
    df = [*(v - instance.b).numpy(), *(theta - instance.a).numpy()]

    def stationarity(steps: int) -> tuple[float, float, float]:
        """min_{λ≥0} ‖∇f + λ∇q‖², q and the cosine."""
        end = r.copy()
        for _ in range(steps):
            end = end - 0.1 * h @ end
        q = 0.5 * r @ h @ r - 0.5 * end @ h @ end
        dq = [*(-a.T @ h @ (r - end)), *(h @ r)]
        fq, qq, ff = (sum(x * y for x, y in zip(s, t, strict=True)) for s, t in ((df, dq), (dq, dq), (df, df)))
        lam = max(-fq / qq, 0.0)
        return ff + 2 * lam * fq + lam**2 * qq, float(q), fq / math.sqrt(ff * qq)

    gradient, q, cos = stationarity(5)
    _, q_twice, _ = stationarity(10)
    exact_gradient, exact_q, _ = stationarity(4000)
    assert found.kkt_gradient == pytest.approx(gradient, rel=1e-12)
    assert found.q == pytest.approx(q, rel=1e-12)
    assert found.kkt == pytest.approx(gradient + q, rel=1e-12)
    assert found.q_twice == pytest.approx(q_twice, rel=1e-12)
    assert found.cos == pytest.approx(cos, rel=1e-12)
    assert found.exact_kkt == pytest.approx(exact_gradient + exact_q, rel=1e-12)
    assert found.f == pytest.approx(float(instance.outer(v, theta)), rel=1e-15)
    assert found.g == pytest.approx(float(instance.inner(v, theta)), rel=1e-15)
    assert found.lambda_zero_share == 0.25


def test_the_exact_measure_vanishes_on_the_way_to_the_solution_along_which_the_constraint_balances_f() -> None:
    """At θ = Av* − t H⁻¹(Av* − a) the multiplier λ = 1/t cancels ∇f up to O(t), so 𝒦 = O(t²).

    At t = 0 itself ∇q is 0 and cancels nothing: there 𝒦 = ‖∇f‖², which is why 𝒦 is measured along the iterates.
    """
    instance = quadratic_instance(seed=1)
    v, theta = instance.solution()
    towards = torch.linalg.solve(instance.H, theta - instance.a)
    found = []
    for t in (1e-3, 1e-4, 0.0):
        problem = Problem(instance.outer, instance.inner, v.clone(), theta - t * towards)
        found.append(stationarity_at(AutogradOracle(problem), problem.point, (instance.A @ v,), Batches()))
    assert found[0].kkt <= 1e-4
    assert found[1].kkt == pytest.approx(found[0].kkt / 100, rel=0.01)
    assert abs(found[2].q) <= 1e-28
    assert found[2].kkt == pytest.approx(found[2].f_norm ** 2)


# f = ½(θ − a)², g = ½θ²: ∇f = θ − a, ∇q̂ = θ. At θ the constraint balances f if a > θ > 0.
def _line(theta: float, a: float = 1.0) -> Problem:
    return Problem(
        lambda v, t, b: 0.5 * (t - a).square().sum() + 0.0 * v.sum(),
        lambda v, t, b: 0.5 * t.square().sum() + 0.0 * v.sum(),
        torch.zeros(1, dtype=F64),
        torch.tensor([theta], dtype=F64),
    )


VERDICTS: dict[str, tuple[Callable[[], Certificate], str]] = {
    # ∇f = −1, ∇q̂ = 1e-4: balanced exactly by λ = 1e4; q̂ ≈ ½1e-8, which 2T steps increase by little (α = 0.9).
    "stationary": (lambda: _certificate(_line(1e-4), lr=0.9), r"^stationary: .*𝒦 ≈ 5.0e-09; T is enough$"),
    # θ = 0.1: balanced, but q̂ = 0.005 is no zero.
    "nearly": (
        lambda: _certificate(_line(0.1), lr=0.9),
        r"^stationary: .*0.0% of ‖∇f‖² is not balanced by the constraint, ",
    ),
    # θ = 2, a = 1: ∇f = 1 and ∇q̂ = 2 point the same way, nothing is balanced.
    "not yet": (
        lambda: _certificate(_line(2.0), lr=0.9),
        r"^not stationary: 100% of ‖∇f‖² is not balanced .*; run longer$",
    ),
    # α = 0.01, T = 3: q̂(T) = ½θ²(1 − 0.99⁶), q̂(2T) = ½θ²(1 − 0.99¹²): 94 % more.
    "T too small": (
        lambda: _certificate(_line(2.0), lr=0.01),
        r"; T = 3 may be too small: 2T inner steps find 94% more decrease of g$",
    ),
    # α = 2.1 > 2/L: the inner loss rises by the factor 1.1² at each step: q̂ = ½ 4 (1 − 1.1⁶) = −1.54.
    "rising": (
        lambda: _certificate(_line(2.0), lr=2.1),
        r"^not stationary: g rises along the look-ahead \(q̂ = -1.5e\+00\): lower inner_lr",
    ),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_the_verdict_is_said_in_plain_words(name: str) -> None:
    make, says = VERDICTS[name]
    verdict = make().verdict
    assert re.search(says, verdict), verdict


@pytest.mark.parametrize("name", NAMES)
def test_a_certificate_leaves_counts_variables_statistics_and_generators_alone(name: Name) -> None:
    """A run of a network with dropout and BatchNorm: its method makes 4 · 5 evaluations of g and 5 of f, no more.

    All else is as a loop around a `Stepper` leaves it.
    """
    ends = []
    for certified in (True, False):
        with seeded(3):
            net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.4), nn.Linear(6, 3)).double()
            problem, batches = cleaning(net)
            opts = Adam(problem.v.leaves, 0.01), SGD(problem.theta.leaves, 0.1)
            if certified:
                data = Data(inner=Constant(batches.inner[0]), outer=Constant(batches.outer[0]))
                result = run(
                    problem, bome(3), outer_opt=opts[0], inner_opt=opts[1], data=data, stop=MaxSteps(5), oracle=name,
                    observe=lambda p: {"norm": float(p.point.v[0].norm())}, log_every=2,
                )  # fmt: skip
                assert result.evaluations == {"g": 20, "f": 5}
                assert result.history.column("n_g") == [4, 12, 20, 20]
                assert len(result.history.column("norm")) == 4
            else:
                stepper = Stepper(problem, bome(3), *opts, oracle=name)
                for _ in range(5):
                    stepper.step_on(batches)
            ends.append(everything(problem, *opts))
    assert same(*ends)


def test_the_share_of_inactive_steps_is_exact() -> None:
    """Counted beside the run, from what each step measured; both kinds of steps occur."""
    problem = Problem(
        lambda v, t, b: (v * t).sum(), lambda v, t, b: (-v * t).sum(), torch.full((1,), 4.0), torch.full((1,), 4.0)
    )
    inactive: list[bool] = []

    def watch(progress: Progress) -> None:
        assert progress.info is not None
        assert progress.info.lam is not None
        inactive.append(float(progress.info.lam) == 0)

    result = run(
        problem, bome(10, 0.1, eta=0.5), outer_opt=SGD(problem.v.leaves, 0.1), stop=MaxSteps(200), progress=watch
    )
    assert result.certificate.lambda_zero_share == sum(inactive) / 200
    assert 0 < sum(inactive) < 200


def test_a_run_whose_look_ahead_rises_warns_once_at_its_end() -> None:
    problem = _line(2.0)
    with pytest.warns(UserWarning, match="the inner loss rose along the look-ahead in 3 of 3 steps: lower inner_lr"):
        run(
            problem,
            bome(3, 2.1),
            outer_opt=SGD(problem.v.leaves, 0.1),
            inner_opt=SGD(problem.theta.leaves, 1e-3),
            stop=MaxSteps(3),
        )


def test_a_certificate_can_be_written_as_json() -> None:
    found = _certificate(toy())
    assert json.loads(json.dumps(found.to_dict())) == found.to_dict()
    assert set(found.numbers()) == {"f", "g", "q", "kkt_gradient", "kkt", "cos"}


def test_at_a_point_without_any_gradient_nothing_is_divided_by_zero() -> None:
    problem = Problem(
        lambda v, t, b: t.square().sum() + 0 * v.sum(), lambda v, t, b: t.square().sum() + 0 * v.sum(),
        torch.zeros(1, dtype=F64), torch.zeros(1, dtype=F64),
    )  # fmt: skip
    found = _certificate(problem)
    assert (found.kkt, found.q, found.q_twice, found.cos) == (0, 0, 0, 0)
    assert found.verdict.startswith("stationary: ")


def test_where_the_inner_problem_is_solved_the_verdict_does_not_blame_v() -> None:
    """There ∇q̂ = 0, so that 𝒦 = ‖∇f‖² even at the optimum."""
    found = perform(plan("quadratic", "aid-cg", {"steps": 300}))
    assert found.certificate.verdict.startswith("not known whether it is stationary: θ solves the inner problem")
