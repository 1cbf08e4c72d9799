"""Certificates against independent computations, and what they say in words."""

import json
import math
import re
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam

from bome import AutogradOracle, Batches, GradientDescent, Problem, Stepper
from bome.certificate import Certificate, allowed, certify
from bome.data.streams import Batch, Constant, Data, Minibatches
from bome.errors import ProblemError
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


# f = ½(θ − a)², g = ½θ²: ∇f = θ − a, ∇q̂ = θ. At θ the constraint balances f if a > θ > 0.
def _line(theta: float, a: float = 1.0) -> Problem:
    return Problem(
        lambda v, t, b: 0.5 * (t - a).square().sum() + 0.0 * v.sum(),
        lambda v, t, b: 0.5 * t.square().sum() + 0.0 * v.sum(),
        torch.zeros(1, dtype=F64),
        torch.tensor([theta], dtype=F64),
    )


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
    assert found.verdict.startswith("stationary to 1%")


def test_where_the_inner_problem_is_solved_v_is_judged_by_moves_of_it() -> None:
    """There ∇q̂ = 0, so that 𝒦 = ‖∇f‖² even at the optimum."""
    found = perform(plan("quadratic", "aid-cg", {"steps": 300})).certificate
    assert found.kkt is not None
    assert found.kkt > 0.1
    assert found.verdict.startswith("stationary to 1%")


def test_the_certificate_takes_at_most_a_tenth_of_the_evaluations_of_the_run_and_500() -> None:
    assert [allowed(n) for n in (0, 999, 4000, 10**6)] == [0, 99, 400, 500]
    result = perform(plan("quadratic", "bome", {"steps": 100}))
    assert sum(result.certificate.evaluations.values()) <= sum(result.evaluations.values()) // 10


# min ½(v − 1)² + ½θ² with θ*(v) = v + E[b] and E[b] = 0: v = θ = ½. Each batch b alone has its own inner minimiser.
def _noisy(v: float) -> tuple[Problem, Data]:
    generator = torch.Generator().manual_seed(0)
    b = torch.randn(1000, generator=generator, dtype=F64)
    problem = Problem(
        lambda v, t, b: (0.5 * (v - 1).square() + 0.5 * t.square()).sum(),
        lambda v, t, b: 0.5 * (t - v - b.data[0]).square().mean(),
        torch.tensor([v], dtype=F64), torch.tensor([v], dtype=F64),
    )  # fmt: skip
    return problem, Data(inner=Minibatches((b - b.mean(),), 50, seed=1))


@pytest.mark.parametrize(
    ("v", "on", "says"),
    [
        (0.5, 1, "not known whether it is stationary: measured on one random batch"),
        (0.5, 200, "stationary to 1% on 200 random batches"),
        (0.7, 200, "not stationary: a move of v"),
        (0.5, 4, "not known whether it is stationary: the noise of the batches hides whether"),
    ],
)
def test_on_random_batches_one_half_is_for_descents_and_the_other_judges(v: float, on: int, says: str) -> None:
    problem, data = _noisy(v)
    oracle = AutogradOracle(problem)
    drawn = data.sampled(on)
    found = certify(oracle, problem.point, GradientDescent(0.1), drawn, sample=True, allowed=10**6)
    assert re.match(says, found.verdict), found.verdict


def test_a_run_is_certified_on_what_is_asked_for() -> None:
    """A step size of 1e-9 leaves v where it is."""

    def verdict(on: int | Data) -> str:
        problem, data = _noisy(0.5)
        return run(
            problem, bome(10, 0.1), outer_opt=SGD(problem.v.leaves, 1e-9), inner_opt=SGD(problem.theta.leaves, 1e-9),
            data=data, stop=MaxSteps(500), certify_on=on,
        ).certificate.verdict  # fmt: skip

    whole = Batch((torch.zeros(1, dtype=F64),), torch.arange(1), 0)
    assert verdict(Data(inner=Constant(whole))).startswith("stationary to 1%: ")
    assert verdict(1).startswith("not known whether it is stationary: measured on one random batch")
    with pytest.raises(ProblemError, match=r"^certify_on \(random batches\) must be a whole number of at least 1"):
        verdict(0)
