"""The trials of the toy study: what they measure, against the library and the authors' code."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bome.certificate import certify
from bome.inner import GradientDescent
from bome.oracles import AutogradOracle
from bome.problem import Batches
from bome.runs.perform import perform as perform_plan
from bome.runs.plan import plan
from bome.tasks import coreset, minimax
from bome_studies.parts import PARTS, results_of
from bome_studies.toys import claims
from bome_studies.toys.protocol import trials
from bome_studies.toys.trials import Traces, Trial, perform, restored, units


def _short(name: str, **changes: object) -> Trial:
    trial = next(trial for trial in trials("quick") if trial.name == name)
    return replace(trial, steps=12, compiled=False, **changes)  # type: ignore[arg-type]


def test_a_trial_is_the_run_of_the_same_plan() -> None:
    trace = perform(_short("coreset-code-bome-published", starts=("b",)))["b"]
    result = perform_plan(plan("coreset", "bome:published", {"start": "b", "steps": 12}))
    assert trace.theta[-1] == result.theta.tolist()
    assert trace.steps == [*range(13)]
    assert trace.units[-1] == units(result.evaluations) == 12 * 12


def test_a_batch_of_starts_gives_what_single_runs_give() -> None:
    for method in ("bome", "bsg1", "bvfsm"):
        together = perform(_short(f"coreset-rescaled-{method}-published"))
        for start, trace in together.items():
            alone = perform(_short(f"coreset-rescaled-{method}-published", starts=(start,)))[start]
            torch.testing.assert_close(torch.tensor(trace.theta), torch.tensor(alone.theta), rtol=1e-9, atol=1e-12)
            torch.testing.assert_close(torch.tensor(trace.q), torch.tensor(alone.q), rtol=1e-9, atol=1e-12)
            assert trace.units == alone.units


def test_the_gap_is_that_of_t_plain_gradient_steps() -> None:
    trace = perform(_short("coreset-code-penalty-published", starts=("a",)))["a"]
    task = coreset()
    with torch.no_grad():
        task.problem.v.leaves[0].copy_(torch.tensor(trace.v[-1], dtype=torch.float64))
        task.problem.theta.leaves[0].copy_(torch.tensor(trace.theta[-1], dtype=torch.float64))
    told = certify(
        AutogradOracle(task.problem), task.problem.point, GradientDescent(0.05, 10), Batches()
    )  # fmt: skip
    assert trace.q[-1] == pytest.approx(told.q, rel=1e-10)
    assert trace.f[-1] == pytest.approx(told.f, rel=1e-10)
    assert trace.distance[-1] == pytest.approx(task.optimum.distance(task.problem.point))  # type: ignore[union-attr]


def test_a_factor_scales_f_alone() -> None:
    scaled = perform(_short("coreset-rescaled-bome-published", starts=("a",)))["a"]
    plain = perform(_short("coreset-paper-bome-default", starts=("a",)))["a"]
    assert scaled.f[0] == pytest.approx(0.1 * plain.f[0])
    assert scaled.g[0] == plain.g[0]


def test_second_order_products_count_twice() -> None:
    assert units({"f": 3, "g": 4, "hvp": 2, "xvp": 1}) == 13
    trace = perform(_short("minimax-code-penalty-published"))["a"]
    assert trace.units[-1] / 12 == 2 * 10 + 2 + 2 * 11  # methods' cost: 2T + 2 gradients, T HVP and 1 XVP


def test_divergence_ends_a_trial_without_an_error() -> None:
    trial = Trial("x", "coreset", "code", "bome", "default", steps=60, lr=1e200, inner_lr=0.05)
    trace = perform(trial)["a"]
    assert trace.diverged
    assert trace.steps[-1] < 60


def _traces(trials: list[Trial], folder: Path) -> dict[str, Traces]:
    return results_of(trials, perform, folder, lambda *_: None, 1, restored)


def test_finished_trials_are_read_and_changed_ones_run_again(tmp_path: Path) -> None:
    planned = [_short("minimax-code-bome-published"), _short("minimax-code-gda-default")]
    first = _traces(planned, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / PARTS).iterdir()}
    assert _traces(planned, tmp_path) == first
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / PARTS).iterdir()} == before
    (tmp_path / PARTS / f"{planned[0].name}.json").write_text("{")  # damaged: run again
    assert _traces(planned, tmp_path)[planned[0].name]["a"].f == first[planned[0].name]["a"].f
    longer = [replace(planned[0], steps=13)]
    assert _traces(longer, tmp_path)[planned[0].name]["a"].steps[-1] == 13


def test_gradient_descent_ascent_grows_as_the_formula_says() -> None:
    trace = perform(_short("minimax-paper-gda-default"))["a"]
    radius = claims.radius(trace)
    assert radius[-1] == pytest.approx(math.sqrt(32) * (1 + 0.05**2) ** (12 / 2))


def test_bome_on_minimax_ends_where_the_authors_code_does() -> None:
    trial = next(trial for trial in trials("quick") if trial.name == "minimax-code-bome-published")
    trace = perform(trial)["a"]
    assert trace.f[-1] == pytest.approx(-7.9e-4, abs=1e-5)
    assert trace.q[-1] == pytest.approx(1.3e-3, abs=1e-4)
    assert (trace.theta[-1][0], trace.v[-1][0]) == pytest.approx((-0.016075, 0.049181), abs=1e-6)
    assert minimax().optimum.distance  # type: ignore[union-attr]


def test_the_published_multiplier_stalls_where_the_authors_does() -> None:
    """λ = max(η − D/(N + 1e-8), 0): near the saddle point N is as small as that; transcribed by hand for 500 steps."""
    trial = next(trial for trial in trials("quick") if trial.name == "minimax-code-T10")
    trace = perform(trial)["a"]
    assert (trace.theta[-1][0], trace.v[-1][0]) == pytest.approx((-3.8603394e-05, 1.0472894e-04), rel=1e-6)
