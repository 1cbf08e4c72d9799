"""The theory experiment: its problems, its measurements, and the whole of it in a few seconds."""

import json
import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from bome.certificate import stationarity_at
from bome.core.trees import Pair
from bome.inner import GradientDescent
from bome.methods import BOME
from bome.oracles import AutogradOracle
from bome.problem import Batches, Problem
from bome.tasks import TASKS
from bome_studies.theory import trials
from bome_studies.theory.instances import (
    Bed,
    Checks,
    Sines,
    Spec,
    Start,
    Tally,
    descended,
    drive,
    looked_ahead,
    measure,
    power,
    residual_instances,
    residual_start,
    sine_starts,
)
from bome_studies.theory.study import THEORY, _ordered, _rate, _slope_claim
from bome_studies.theory.trials import inner_rate, perform, sweeps


def beds() -> list[tuple[Bed, Start]]:
    bed = residual_instances(3)
    return [(bed, residual_start(bed, torch.full((6,), 2.0, dtype=torch.float64))), (Sines(), sine_starts(6))]


def each(bed: Bed, start: Start) -> list[tuple[Tensor, Tensor, tuple[Tensor, ...] | None]]:
    """v, θ and data of each run."""
    data = bed.data()
    return [
        (v, theta, None if data is None else tuple(x[i] for x in data))
        for i, (v, theta) in enumerate(zip(*start, strict=True))
    ]


@pytest.mark.parametrize(("bed", "start"), beds())
def test_the_gradients_written_out_are_those_of_the_losses(bed: Bed, start: Start) -> None:
    written = bed.inner_gradient(*start), bed.outer_gradient(*start)
    for loss, found in zip((bed.inner, bed.outer), written, strict=True):
        for i, (v, theta, data) in enumerate(each(bed, start)):
            grads = torch.func.grad(loss, argnums=(0, 1))(v, theta, data)
            for grad, mine in zip(grads, found, strict=True):
                torch.testing.assert_close(mine[i], grad, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("bed", "start"), beds())
def test_the_second_order_products_are_those_of_the_inner_loss(bed: Bed, start: Start) -> None:
    omega = torch.randn(start.theta.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    cross, own = bed.products(*start, omega)
    for i, (v, theta, data) in enumerate(each(bed, start)):

        def pushed(v: Tensor, theta: Tensor, data: object = data, i: int = i) -> Tensor:
            pushed: Tensor = torch.func.grad(bed.inner, argnums=1)(v, theta, data) @ omega[i]
            return pushed

        by_v, by_theta = torch.func.grad(pushed, argnums=(0, 1))(v, theta)
        torch.testing.assert_close(cross[i], by_v, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(own[i], by_theta, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("bed", "start"), beds())
def test_values_are_those_of_the_losses_up_to_a_constant(bed: Bed, start: Start) -> None:
    elsewhere = Start(start.v, bed.attraction(*start))
    gap = bed.inner_value(*start) - bed.inner_value(*elsewhere)
    f = bed.outer_value(*start)
    for i, (run, end) in enumerate(zip(each(bed, start), each(bed, elsewhere), strict=True)):
        assert float(bed.inner(*run) - bed.inner(*end)) == pytest.approx(float(gap[i]), rel=1e-12)
        assert float(bed.outer(*run)) == pytest.approx(float(f[i]), rel=1e-12)


@pytest.mark.parametrize(("bed", "start"), beds())
def test_gradient_descent_goes_to_the_attraction_point(bed: Bed, start: Start) -> None:
    end = descended(bed, *start, Spec(2000, 1 / 3))[-1]
    torch.testing.assert_close(end, bed.attraction(*start), rtol=1e-9, atol=1e-9)


def test_the_constants_of_the_instances_are_right() -> None:
    """‖∇_θ g‖² ≥ κ q and curvature of at most L at many points; for w > 0 nearly with equality somewhere."""
    bed = residual_instances(200)
    gaps = torch.logspace(-4, 2, 400, dtype=torch.float64)
    start = residual_start(bed, gaps)
    ratio = bed.inner_gradient(*start)[1].square().sum(-1) / bed.inner_value(*start)
    assert (ratio >= bed.pl() * (1 - 1e-9)).all()
    torch.testing.assert_close(bed.smoothness(), torch.full((400,), 1.5, dtype=torch.float64))
    assert bed.pl()[0] == pytest.approx(1.5)
    assert bed.pl()[-1] == pytest.approx(0.0439, abs=1e-4)


def test_starts_have_the_gap_that_is_asked_for() -> None:
    bed = residual_instances(2)
    gaps = torch.tensor([1e-3, 1.0, 10.0, 0.1], dtype=torch.float64)
    start = residual_start(bed, gaps)
    torch.testing.assert_close(bed.inner_value(*start), gaps, rtol=1e-10, atol=0)


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


def test_a_wrong_move_breaks_the_barrier_inequality() -> None:
    bed = residual_instances(1)
    start = residual_start(bed, torch.ones(2, dtype=torch.float64))
    spec = Spec(3, 0.5)
    (stretch,) = drive(bed, start, torch.full((2,), 0.1, dtype=torch.float64), spec, 2, False)
    checks = Checks()
    checks.add(measure(bed, stretch._replace(delta=0.99 * stretch.delta), spec))
    assert checks.slack < -1e-4


def test_the_best_value_of_a_basin_is_that_of_the_task() -> None:
    optimum = TASKS["sine"]().optimum
    assert optimum is not None
    around = torch.arange(-3, 4)
    values = Sines().local_value(torch.cartesian_prod(around, around))
    assert float(values.min()) == pytest.approx(optimum.f, rel=1e-12)


def test_a_tally_averages_the_last_fifth_and_ends_where_each_run_ends() -> None:
    """Values are k and 10k; runs end at k = 10 and 5: means of 8, 9, 10 and of 40, 50."""
    tally = Tally(np.array([10, 5]), np.array([0, 4]))
    for first in (0, 4, 8):
        k = np.arange(first, min(first + 4, 12))
        tally.add(k, {"x": torch.from_numpy(np.stack([k + 1.0, 10.0 * k], axis=1))})
    np.testing.assert_allclose(tally.average("x"), [10, 45])
    np.testing.assert_allclose(tally.least["x"], [1, 0])
    np.testing.assert_allclose(tally.last["x"], [11, 50])
    np.testing.assert_allclose(tally.total["x"], [66, 150])
    np.testing.assert_allclose(tally.curve("x"), [[1, 0], [5, 40]])
    assert tally.steps == [0, 4]


def test_exponents_of_power_laws_are_found_with_their_spread() -> None:
    x = np.array([1.0, 2.0, 5.0])
    fit = power(x, np.stack([3 * x**0.4, 7 * x**0.6], axis=1))
    assert fit == pytest.approx((0.5, 0.1, 2))


def test_a_rate_is_fitted_between_top_and_floor_only() -> None:
    k = np.arange(100.0)
    curve = np.maximum(np.where(k < 5, np.exp(5 - 1.3 * k), np.exp(-0.3 * k)), 1e-6)
    assert _rate(k, curve, 1e-5, math.exp(-1.4)) == pytest.approx(0.3)


def test_a_slope_within_two_standard_errors_of_its_bound_decides_nothing() -> None:
    fits = {
        mean: power(np.array([1.0, 2.0]), np.array([[1, 1], [2 ** (mean - 0.1), 2 ** (mean + 0.1)]]))
        for mean in (0.35, 0.5, 0.8)
    }
    assert [_slope_claim("", "", "", fit, 0.5).holds for fit in fits.values()] == [None, None, True]
    assert _slope_claim("", "", "", fits[0.35]._replace(se=0.01), 0.5).holds is False


def test_order_is_judged_only_between_basins_that_differ() -> None:
    assert _ordered([1.0, 1.01, 2.0], [1.1, 1.0, 2.0])
    assert not _ordered([1.0, 2.0], [2.0, 1.0])


def test_the_rate_of_the_inner_steps_is_positive() -> None:
    """α = 1/L: 1 − κ/(2L) = 1 − μ/L."""
    assert inner_rate(2 / 3, 1.5) == pytest.approx(math.log(2))


def test_smoke_runs_all_of_it_and_does_not_run_finished_parts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, int, int]] = []
    findings = THEORY.carry_out("smoke", tmp_path, lambda *args: seen.append(args))
    made = sweeps("smoke")
    assert [done for _, done, _ in seen] == list(range(1, len(made) + 1))
    assert len(findings.sections) == 8
    assert all(claim.holds is None for claim in findings.claims)
    assert all(math.isfinite(row.mean) and "theory" in row.command for row in findings.rows)
    names = [drawing.name for section in findings.sections for drawing in section.figures]
    assert len(set(names)) == len(names)
    for section in findings.sections:
        for drawing in section.figures:
            ElementTree.fromstring(drawing.svg)  # noqa: S314 - made here

    def again(sweep: object) -> None:
        raise AssertionError("ran again")

    monkeypatch.setattr(trials, "perform", again)
    assert THEORY.carry_out("smoke", tmp_path, lambda *_: None) == findings


def test_a_damaged_part_is_run_again(tmp_path: Path) -> None:
    sweep = sweeps("smoke")[-1]
    run = [sweep]
    trials.carry_out(run, tmp_path, lambda *_: None, workers=1)
    (path,) = (tmp_path / "parts").iterdir()
    whole = path.read_text()
    path.write_text(whole[:100])
    trials.carry_out(run, tmp_path, lambda *_: None, workers=1)
    assert json.loads(path.read_text()) == json.loads(whole)


def test_the_theorem_holds_on_a_short_sweep() -> None:
    """The floors of q and 𝒦 fall at least as fast as the bounds, ξ and ξ^{1/2}."""
    sweep = sweeps("smoke")[0]
    outcome = perform(sweep)
    rates = np.array([s.rate for s in sweep.settings if s.use == "rate"])
    assert power(rates, outcome.average["q"][: len(rates)]).mean > 1
    assert power(rates, outcome.average["kkt"][: len(rates)]).mean > 0.5
