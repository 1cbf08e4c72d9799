"""Comparisons on learning tasks: costs, budgets and choices."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from bome.runs.choice import Choice, ranked
from bome.runs.jobs import Job, Outcome
from bome_studies.learning import comparison
from bome_studies.learning import figures as figures
from bome_studies.learning.comparison import compare, steps_for, units
from bome_studies.learning.hyperclean import PROTOCOLS
from tests.support.comparisons import entry_of

SMOKE = PROTOCOLS["smoke"]


QUICK = PROTOCOLS["quick"]


@pytest.mark.parametrize(
    ("method", "inner_steps", "expected"),
    [
        ("bome", 1, 3),  # methods.md 2.3: T + 2
        ("bome", 10, 12),
        ("itd", 10, 10 + 2 * 10 + 2 * 10 + 1),  # T gradients, T products of each kind, f
        ("aid-cg", 1, 1 + 1 + 1 + 2 * 10 + 2),  # T, f, a gradient with its graph, 10 Hessian products, a cross product
        ("pbgd", 1, 3),
    ],
)
def test_a_step_costs_what_its_formula_says(method: str, inner_steps: int, expected: float) -> None:
    assert units(SMOKE, method, inner_steps) == pytest.approx(expected)


def test_minibatches_count_as_their_part_of_the_samples() -> None:
    whole = replace(QUICK, samples=(1_000, 1_000))  # the suggested batch of stocbio, so all samples
    counts = units(whole, "stocbio", 1)
    assert units(QUICK, "stocbio", 1) < counts / 10  # 1,000 of 50,000, and of 5,000


def test_a_budget_is_never_exceeded_and_steps_are_limited() -> None:
    for method in ("bome", "itd", "stocbio"):
        steps = steps_for(QUICK, method, 10, QUICK.budget)
        assert steps <= QUICK.most_steps
        assert steps * units(QUICK, method, 10) <= QUICK.budget
    assert steps_for(QUICK, "vrbo", 1, 1e9) == QUICK.most_steps


def test_means_and_errors_are_over_the_seeds_and_axes_are_scaled() -> None:
    entry = entry_of("bome", [90.0, 92.0], units_of_a_step=3.0)
    mean, error = entry.last("test_accuracy")
    assert mean == 91.0
    assert error == pytest.approx(1.0)
    across, means, errors = entry.curve("test_accuracy", "units")
    assert across == [0.0, 12.0]
    assert means == [91.0, 91.0]
    assert errors == [pytest.approx(1.0)] * 2


def test_the_choice_is_made_on_validation_set_2_and_not_on_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fake(jobs: list[Job], folder: Path, report: object = None, workers: int = 1) -> dict[Job, Outcome]:
        made = {}
        for job in jobs:
            lr = dict(job.values)["outer_lr"]
            # the larger step size is better on validation set 2 and worse on test
            last = {"val2_loss": 1 / lr, "test_accuracy": 100 - lr, "test_loss": lr}
            made[job] = Outcome(job, "finished", "", [{"step": 0, **last}], steps=1)
        return made

    monkeypatch.setattr("bome_studies.learning.comparison.run_jobs", fake)
    protocol = replace(SMOKE, methods=("bome",), outer_lrs=(1.0, 5.0, 2.0), ablations=(), extra={})
    (found,) = compare(protocol, lambda task, seed, preset: {}, "smoke", tmp_path, lambda what, done, total: None)
    assert found.entry("bome").values["outer_lr"] == 5.0


def _choices(losses: Mapping[tuple[int, float], float]) -> list[Choice]:
    outcomes = []
    for (inner_steps, lr), loss in losses.items():
        job = Job("hyperclean-digits", "bome", (("inner_steps", inner_steps), ("outer_lr", lr), ("steps", 4)), 0)
        outcomes.append(Outcome(job, "finished", "", [{"step": 4, "val2_loss": loss}]))
    return ranked(outcomes)


@pytest.mark.parametrize(
    ("searched", "full", "chosen", "tried"),
    [
        ({(10, 5.0): 1.0, (1, 5.0): 2.0, (1, 1.0): 3.0}, {(10, 5.0): 0.9, (1, 5.0): 0.5}, (1, 5.0), 2),
        ({(10, 5.0): 1.0, (1, 5.0): 2.0, (1, 1.0): 3.0}, {(10, 5.0): math.inf, (1, 5.0): 2.5, (1, 1.0): 2.9},
         (1, 1.0), 3),
        ({(1, 5.0): 1.0, (1, 1.0): 2.0}, {(1, 5.0): math.inf, (1, 1.0): math.inf}, (1, 5.0), 2),
    ],
    ids=["best at full length", "the finalists do not hold up", "none holds up"],
)  # fmt: skip
def test_the_best_step_size_of_each_t_runs_at_full_length_and_one_that_holds_up_wins(
    searched: dict[tuple[int, float], float],
    full: dict[tuple[int, float], float],
    chosen: tuple[int, float],
    tried: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    seen: list[Job] = []

    def run(jobs: Iterable[Job], *_: object, **__: object) -> dict[Job, Outcome]:
        found = {}
        for job in jobs:
            seen.append(job)
            values = dict(job.values)
            assert values["steps"] == steps_for(SMOKE, "bome", values["inner_steps"], SMOKE.budget)
            loss = full[values["inner_steps"], values["outer_lr"]]
            status = "finished" if loss < math.inf else "diverged"
            found[job] = Outcome(job, status, "", [{"step": 4, "val2_loss": loss}])
        return found

    monkeypatch.setattr(comparison, "run_jobs", run)
    found = comparison._winner("hyperclean-digits", "bome", _choices(searched), SMOKE, tmp_path)
    assert (found["inner_steps"], found["outer_lr"]) == chosen
    assert len(seen) == tried
