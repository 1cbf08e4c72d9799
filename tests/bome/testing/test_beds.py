"""The test beds: their solutions are solutions, and every method finds the bed it can be checked on."""

from dataclasses import dataclass

import pytest
import torch

from bome import GradientDescent
from bome.core.trees import Pair
from bome.methods import BOME, GDA
from bome.oracles import AutogradOracle
from bome.problem import Problem
from bome.testing import beds
from bome.testing.beds import BED_SETTINGS, Bed, Make, bed_problem, first_bed, start_point
from tests.support.plain import Plain

MAKERS: dict[str, Make] = {
    "quadratic": lambda settings: BOME(GradientDescent(0.5, 2)),
    "saddle": lambda settings: GDA(),
}


def _problem(bed: Bed, at: Pair) -> Problem:
    return bed_problem(bed, at.v[0].clone(), at.theta[0].clone())


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_the_inner_solution_of_a_bed_is_stationary(make: Make) -> None:
    bed, (v, _) = first_bed(make), start_point(torch.float64)
    theta = bed.inner_solution(v)
    g = AutogradOracle(bed_problem(bed, v, theta)).inner((v,), (theta,), None)
    assert float(g.grad.theta[0].norm()) <= 1e-13


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_no_feasible_point_of_a_bed_is_better_than_its_solution(make: Make) -> None:
    bed = first_bed(make)
    (v,), (theta,) = bed.solution
    torch.testing.assert_close(bed.inner_solution(v), theta, rtol=1e-12, atol=1e-12)
    lowest = float(bed.outer(v, theta, None))
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        other = v + 0.1 * torch.randn(3, generator=generator, dtype=torch.float64)
        assert float(bed.outer(other, bed.inner_solution(other), None)) >= lowest


def test_the_penalised_minimum_is_stationary_and_tends_to_the_solution() -> None:
    bed = first_bed(MAKERS["quadratic"])
    assert bed.penalised is not None
    at = bed.penalised(10.0)
    oracle = AutogradOracle(_problem(bed, at))
    f, g = oracle.outer(*at, None).grad, oracle.inner(*at, None).grad
    for outer, inner in zip(f.v + f.theta, g.v + g.theta, strict=True):
        assert float((outer + 10 * inner).norm()) <= 1e-12
    far = bed.penalised(1e6)
    torch.testing.assert_close(far.v[0], bed.solution.v[0], rtol=0, atol=1e-5)


@dataclass(frozen=True)
class Refusing(Plain):
    def refusal(self, problem: Problem) -> str | None:
        return "it is not blue"


def test_a_method_that_refuses_every_problem_cannot_be_checked() -> None:
    with pytest.raises(AssertionError, match="it refuses every problem: it is not blue; it is not blue"):
        first_bed(lambda settings: Refusing())


def test_a_method_is_checked_on_every_toy_it_accepts_with_every_oracle_it_can_use() -> None:
    cases = [str(case) for case in beds.cases(MAKERS["saddle"])]
    assert cases == [f"on minimax with the {oracle} oracle" for oracle in ("autograd", "func", "backward")]
    assert len(list(beds.cases(MAKERS["quadratic"]))) == 15


def test_a_maker_is_made_of_a_method_of_its_class_or_of_a_function() -> None:
    method = Plain(GradientDescent(0.5, 2))
    assert beds.maker(method)(BED_SETTINGS) is method
    assert beds.maker(Plain)(BED_SETTINGS) == method
    assert beds.maker(lambda settings: method)(BED_SETTINGS) is method


def test_differences_are_relative_and_count_all_tensors() -> None:
    one, two = torch.ones(2), torch.full((2,), 2.0)
    assert beds.difference((one, two), (one, two)) == 0
    assert beds.difference((two, two), (one, one)) == pytest.approx(1.0)
    assert beds.same((one, two), (one.clone(), two.clone()))
    assert not beds.same((one,), (one, two))
