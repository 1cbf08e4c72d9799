"""BOME where a bound is active at the solution, in closed form: min x + y² with 1 ≤ x ≤ 2, and one with bounds on y."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim import SGD

from bome import BOME, GradientDescent, MaxSteps, Problem, Result, Stepper, Tuner, run
from bome.methods import Batched, Compiled
from bome.problem import either
from bome.projections import box

ALPHA, XI = 0.1, 0.02


def vector(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def on_v() -> Problem:
    """A: f = x + y², g = (y − x)², x in [1, 2]; the solution is x = y = 1."""

    def outer(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return (v + theta.square()).sum()

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return (theta - v).square().sum()

    return Problem(outer, inner, vector(2), vector(2), project_v=box(1, 2))


def on_theta(runs: int = 0) -> Problem:
    """B: f = (x − 1)² + (y₁ − 2)² + y₂, g = (y₁ − x)² + (y₂ + 1)², y in [0, 3]²; x = y₁ = 1.5 and y₂ = 0."""

    def outer(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return (v[0] - 1) ** 2 + (theta[0] - 2) ** 2 + theta[1]

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return (theta[0] - v[0]) ** 2 + (theta[1] + 1) ** 2

    v, theta = vector(0), vector(0, 1)
    if runs:
        v, theta = (x.expand(runs, *x.shape).clone() for x in (v, theta))
    return Problem(either(outer, 1), either(inner, 1), v, theta, project_theta=box(0, 3))


def ended(problem: Problem, method: Any, steps: int, oracle: Any = "autograd") -> Tensor:
    stepper = Stepper(problem, method, SGD(problem.v.leaves, XI), SGD(problem.theta.leaves, XI), oracle=oracle)
    for _ in range(steps):
        stepper.step()
    return torch.cat([problem.point.v[0], problem.point.theta[0]], dim=-1)


def trained(problem: Problem, steps: int, tuner: Tuner | None) -> Result:
    return run(
        problem, BOME(GradientDescent(ALPHA, 10)), outer_opt=SGD(problem.v.leaves, XI),
        inner_opt=SGD(problem.theta.leaves, XI), stop=MaxSteps(steps), log_every=100, refit=False, tuner=tuner,
    )  # fmt: skip


@pytest.mark.parametrize(("inner_steps", "error"), [(30, 1e-3), (50, 1e-4)])
@pytest.mark.parametrize(("made", "solution"), [(on_v, [1, 1]), (on_theta, [1.5, 1.5, 0])], ids=["v", "theta"])
def test_it_ends_at_the_solution(
    made: Callable[[], Problem], solution: list[float], inner_steps: int, error: float
) -> None:
    end = ended(made(), BOME(GradientDescent(ALPHA, inner_steps)), 300)
    assert end.tolist() == pytest.approx(solution, abs=error)


@pytest.mark.parametrize("made", [on_v, on_theta], ids=["v", "theta"])
@pytest.mark.parametrize("phi", ["norm", "gap"])
def test_every_oracle_takes_the_same_steps(made: Callable[[], Problem], phi: Any) -> None:
    method = BOME(GradientDescent(ALPHA, 10), phi=phi)
    expected = ended(made(), method, 30)
    for oracle in ("func", "backward"):
        torch.testing.assert_close(ended(made(), method, 30, oracle), expected, rtol=1e-10, atol=1e-12)


def test_runs_of_a_batch_and_a_compiled_step_take_the_same_steps() -> None:
    method = BOME(GradientDescent(ALPHA, 2))
    expected = ended(on_theta(), method, 30)
    together = ended(on_theta(2), Batched(method), 30, "func")
    torch.testing.assert_close(together, expected.expand(2, 3), rtol=1e-10, atol=1e-12)
    compiled = ended(on_theta(), Compiled(method, backend="aot_eager"), 30, "func")
    torch.testing.assert_close(compiled, expected, rtol=1e-10, atol=1e-12)


def test_the_certificate_names_the_bias_of_a_small_t() -> None:
    """With T = 10 B ends at 1.472; 𝒦 is small there, but the direction is not that of more inner steps."""
    problem = on_theta()
    found = trained(problem, 300, None)
    assert float(problem.point.v[0]) == pytest.approx(1.472, abs=2e-3)
    assert found.certificate is not None
    assert found.certificate.kkt is not None
    assert found.certificate.kkt < 1e-4
    assert "T = 10 leaves an error of" in found.certificate.verdict


def test_the_variant_of_the_paper_counts_what_the_projection_undoes() -> None:
    """It ends elsewhere, as version 0.1.0 does."""
    method = BOME(GradientDescent(ALPHA, 10), **BOME.variants["paper"])
    assert ended(on_v(), method, 200).tolist() == pytest.approx([1, 0.267], abs=5e-3)
    assert ended(on_theta(), method, 200).tolist() == pytest.approx([1.183, 1.795, 0], abs=2e-2)


def test_a_tuner_keeps_working() -> None:
    problem = on_theta()
    trained(problem, 200, Tuner())
    assert float(problem.point.v[0]) == pytest.approx(1.5, abs=0.02)
