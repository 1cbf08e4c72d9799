"""Many runs at once take the steps of single ones, and are measured as the library measures."""

import math

import pytest
import torch

from bome.certificate import stationarity_at
from bome.core.trees import Pair
from bome.inner import GradientDescent
from bome.methods import BOME
from bome.oracles import AutogradOracle
from bome.problem import Batches, Problem
from bome_studies.theory import trials as trials
from bome_studies.theory.instances import Bed, Start, residual_instances, residual_start
from bome_studies.theory.stretches import Spec, descended, drive, looked_ahead, measure
from bome_studies.theory.tallies import Checks
from tests.support.beds import beds, each


@pytest.mark.parametrize(("bed", "start"), beds())
def test_the_inner_map_of_the_library_takes_the_same_steps(bed: Bed, start: Start) -> None:
    spec = Spec(5, 0.3)
    for mine, library in zip(descended(bed, *start, spec), looked_ahead(bed, start, spec), strict=True):
        torch.testing.assert_close(mine, library, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_batch_takes_the_steps_of_single_runs(compiled: bool) -> None:
    """Two steps with decreasing step sizes against the method called by hand."""
    bed = residual_instances(1)
    start = residual_start(bed, torch.ones(2, dtype=torch.float64))
    rates = torch.tensor([0.1, 0.02], dtype=torch.float64)
    (stretch,) = drive(bed, start, rates, Spec(3, 0.5, eta=0.7, decay=True), 2, compiled)
    method = BOME(GradientDescent(0.5, 3), eta=0.7)
    for i, (v, theta, data) in enumerate(each(bed, start)):
        oracle = AutogradOracle(Problem(bed.outer, bed.inner, v, theta))
        for k in range(2):
            torch.testing.assert_close(stretch.v[k, i], v, rtol=1e-12, atol=1e-12)
            step = method.step(oracle, Pair((v,), (theta,)), {}, Batches(inner=(data,), outer=(data,)), None)  # type: ignore[arg-type]
            delta = torch.cat([step.direction.v[0], step.direction.theta[0]])
            torch.testing.assert_close(stretch.delta[k, i], delta, rtol=1e-9, atol=1e-9)
            size = float(rates[i]) / math.sqrt(k + 1)
            v, theta = v - size * step.direction.v[0], theta - size * step.direction.theta[0]
        torch.testing.assert_close(stretch.after.theta[-1, i], theta, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("bed", "start"), beds())
def test_measurements_agree_with_those_of_the_library(bed: Bed, start: Start) -> None:
    spec = Spec(4, 0.3)
    (stretch,) = drive(bed, start, torch.full((6,), 0.05, dtype=torch.float64), spec, 3, False)
    measured = measure(bed, stretch, spec)
    for k in range(3):
        here = Start(stretch.v[k], stretch.theta[k])
        ends = bed.attraction(*here)
        for i, (v, theta, data) in enumerate(each(bed, here)):
            oracle = AutogradOracle(Problem(bed.outer, bed.inner, v, theta))
            batches = Batches(inner=(data,), outer=(data,))
            exact = stationarity_at(oracle, Pair((v,), (theta,)), (ends[i],), batches)
            assert float(measured["kkt"][k, i]) == pytest.approx(exact.kkt, rel=1e-9)
            step = BOME(GradientDescent(0.3, 4)).step(oracle, Pair((v,), (theta,)), {}, batches, None)  # type: ignore[arg-type]
            assert step.info.lam is not None
            assert float(measured["lam"][k, i]) == pytest.approx(float(step.info.lam), rel=1e-9)
    checks = Checks()
    checks.add(measured)
    assert checks.slack > -1e-10
    assert checks.equality < 1e-10
    assert 0 < checks.error <= 1
