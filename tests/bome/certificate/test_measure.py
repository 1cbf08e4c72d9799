"""The stationarity measure on the way to a solution and at it."""

import pytest
import torch

from bome import AutogradOracle, Batches, Problem
from bome.certificate import stationarity_at
from bome.tasks import quadratic_instance


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


def test_what_is_not_balanced_is_a_share_and_lambda_is_that_of_the_minimum() -> None:
    """∇f = (0, −2) and ∇q = (0, 4) cancel with λ = ½; where both are 0 nothing is left."""

    def at(theta: float) -> tuple[float, float]:
        problem = Problem(
            lambda v, t, b: 0.5 * (t - 6).square().sum() + 0 * v.sum(),
            lambda v, t, b: 0.5 * t.square().sum() + 0 * v.sum(),
            torch.zeros(1, dtype=torch.float64), torch.tensor([theta], dtype=torch.float64),
        )  # fmt: skip
        found = stationarity_at(
            AutogradOracle(problem), problem.point, (torch.zeros(1, dtype=torch.float64),), Batches()
        )
        return found.left, found.lam

    assert at(4.0) == (0.0, 0.5)
    assert at(8.0) == (1.0, 0.0)
    assert at(6.0) == (0.0, 0.0)
