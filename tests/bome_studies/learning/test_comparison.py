"""Comparisons on learning tasks: costs, choices, and the smoke presets of both experiments."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from bome.cli.main import execute
from bome.runs.choice import Choice, ranked
from bome.runs.jobs import Job, Outcome
from bome.runs.names import METHODS as REGISTERED
from bome_studies import page
from bome_studies.learning import claims, comparison, study
from bome_studies.learning import figures as figures
from bome_studies.learning.comparison import Comparison, Entry, compare, steps_for, units, uses_t
from bome_studies.learning.hyperclean import HYPERCLEAN, PROTOCOLS
from bome_studies.learning.newsgroups import REGULARIZATION
from bome_studies.learning.study import METHODS, search_note
from tests.support.browser import look_at, needs_browser

EXPERIMENTS = {each.name: each for each in (HYPERCLEAN, REGULARIZATION)}
SMOKE = PROTOCOLS["smoke"]
QUICK = PROTOCOLS["quick"]


def _outcome(method: str, value: float, *, seed: int = 0, **last: float) -> Outcome:
    job = Job("hyperclean-digits", method, (("inner_steps", 1), ("outer_lr", value), ("steps", 4)), seed)
    return Outcome(job, "finished", "", [{"step": 0, **last}, {"step": 4, **last}], steps=4)


def _entry(method: str, accuracies: list[float], units_of_a_step: float = 3.0) -> Entry:
    outcomes = tuple(
        _outcome(method, 1.0, seed=seed, test_accuracy=accuracy, val2_loss=1.0)
        for seed, accuracy in enumerate(accuracies)
    )
    return Entry(method, {"inner_steps": 1, "outer_lr": 1.0, "steps": 4}, outcomes, units_of_a_step)


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


def test_every_method_but_those_of_games_is_compared() -> None:
    assert set(METHODS) == set(REGISTERED) - {"gda", "ogda"}
    assert not uses_t("soba")
    assert uses_t("bome")


def test_means_and_errors_are_over_the_seeds_and_axes_are_scaled() -> None:
    entry = _entry("bome", [90.0, 92.0], units_of_a_step=3.0)
    mean, error = entry.last("test_accuracy")
    assert mean == 91.0
    assert error == pytest.approx(1.0)
    across, means, errors = entry.curve("test_accuracy", "units")
    assert across == [0.0, 12.0]
    assert means == [91.0, 91.0]
    assert errors == [pytest.approx(1.0)] * 2


@pytest.mark.parametrize(
    ("bome", "other", "holds"),
    [
        ([91.0, 91.2], [90.0, 90.2], True),
        ([91.0, 91.2], [91.4, 91.0], True),  # −0.1 ± 0.3
        ([91.0, 95.0], [91.2, 95.2], False),  # worse on every seed, however much the seeds differ
        ([90.0, 90.1, 99.0], [91.0, 91.1], False),  # a seed that the other does not have
    ],
)
def test_first_or_level_compares_seed_by_seed_and_allows_one_standard_error(
    bome: list[float], other: list[float], holds: bool
) -> None:
    ours = _entry("bome", bome)
    found = Comparison("hyperclean-digits", {}, (ours, _entry("itd", other)), (), {})
    assert claims.first_or_level(found, ours, "selected").holds is holds


def test_a_method_with_a_diverged_run_is_named_and_its_other_runs_are_told() -> None:
    three = _entry("itd", [80.0, 90.0, 85.0])
    first, second, third = three.outcomes
    astray = replace(three, outcomes=(first, replace(second, status="diverged"), third))
    found = Comparison("hyperclean-digits", {}, (_entry("bome", [91.0, 92.0, 93.0]), astray), (), {})
    assert astray.last("test_accuracy")[0] == 82.5
    assert "itd on seed 1." in claims._about(found)
    table = claims.results(found, [], cleaning=False)
    row = dict(zip(table.header, table.rows[1], strict=True))
    assert (row["method"], row["test accuracy, %"], row["seeds"]) == ("itd", "82.50 ± 2.50", "2")


def test_an_ablation_tells_what_its_runs_share() -> None:
    entries = {f"T = {t}": replace(_entry("bome", [90.0]), values={"inner_steps": t, "eta": 0.5}) for t in (1, 5)}
    assert claims._shared(entries) == "bome on seed 0 with eta = 0.5."


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

    monkeypatch.setattr("bome_studies.learning.comparison.carry_out", fake)
    protocol = replace(SMOKE, methods=("bome",), outer_lrs=(1.0, 5.0, 2.0), ablations=(), extra={})
    (found,) = compare(protocol, lambda task, seed: {}, tmp_path, lambda what, done, total: None)
    assert found.entry("bome").values["outer_lr"] == 5.0


def test_the_note_on_the_search_tells_the_budgets_the_grid_and_the_seeds() -> None:
    told = search_note(replace(QUICK, search=11, budget=222, most_steps=33, seeds=(4, 6)))
    for words in (
        "T = 1, 10",
        "step sizes of v 10, 50, 100, 500, 1000",
        "11 gradient-equivalents",
        "for 222 (at most 33 outer steps)",
        "Seeds of the winner: 4; of that of BOME: 6",
    ):
        assert words in told


@pytest.mark.parametrize("name", ["hyperclean", "regularization"])
def test_the_smoke_preset_leaves_numbers_figures_and_a_page(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "hyperclean":  # drawing takes most of the time, and the other one draws the same kinds of figures
        monkeypatch.setattr("bome_studies.learning.figures.render", lambda figure: b"<svg/>")
    folder = tmp_path / name
    command = ["reproduce", name, "--preset", "smoke", "--out", str(folder), "--quiet"]
    assert execute(command) == 0
    rows = json.loads((folder / "results.json").read_text())
    selected = {row["method"] for row in rows if row["variant"] == "selected" and row["metric"] == "test_accuracy"}
    assert selected == set(METHODS)
    resolved = {row["method"] for row in rows if row["metric"] == "test_accuracy_resolved"}
    assert resolved == set(METHODS)
    told = json.loads((folder / "findings.json").read_text())
    assert told["notes"][0] == search_note(EXPERIMENTS[name].protocols["smoke"])
    assert all(claim["holds"] is None for claim in told["claims"])  # a few steps decide nothing
    text = (folder / "report.html").read_text()
    assert text.count("<figure") == sum(len(section["figures"]) for section in told["sections"])
    before = {path: path.stat().st_mtime_ns for path in (folder / "parts").rglob("*.json")}
    assert execute(command) == 0  # nothing is run again
    assert {path: path.stat().st_mtime_ns for path in (folder / "parts").rglob("*.json")} == before


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

    monkeypatch.setattr(comparison, "carry_out", run)
    found = comparison._winner("hyperclean-digits", "bome", _choices(searched), SMOKE, tmp_path)
    assert (found["inner_steps"], found["outer_lr"]) == chosen
    assert len(seen) == tried


def _found() -> Comparison:
    """A comparison with something of every kind."""
    numbers = {"test_accuracy": 90.0, "test_loss": 0.3, "val2_loss": 0.4, "f1": 93.0, "precision": 92.0, "recall": 94.0}

    def entry(method: str, shift: float, searched: bool) -> Entry:
        outcomes = []
        for seed in range(2):
            last = {name: value + shift + 0.1 * seed for name, value in numbers.items()}
            resolved = {"test_accuracy": 90.5 + shift}
            outcomes.append(replace(_outcome(method, 10.0, seed=seed, **last), resolved=resolved))
        tried = tuple(_outcome(method, lr, val2_loss=1 / lr) for lr in (1.0, 10.0)) if searched else ()
        return Entry(method, dict(outcomes[0].job.values), tuple(outcomes), 3.0, 0.1, tried)

    return Comparison(
        "hyperclean-digits",
        {name: [numbers, numbers] for name in (*HYPERCLEAN.lines, "known noise")},
        tuple(entry(method, -0.1 * i, True) for i, method in enumerate(METHODS)),
        tuple(entry("bome", 0.1, False) for _ in SMOKE.extra),
        {each.name: {label: entry(each.method, 0.0, False) for label in each.varied} for each in SMOKE.ablations},
    )


@needs_browser
def test_the_page_of_a_comparison_opens_in_a_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "compare", lambda *_: (_found(),))
    page.prepare(tmp_path, HYPERCLEAN.name, "smoke")
    findings = HYPERCLEAN.carry_out("smoke", tmp_path, lambda what, done, total: None)
    written = page.write(tmp_path, findings)
    for width in (400, 1200):
        seen = look_at(written, tmp_path / "profile", width)
        assert seen.title == "Data hyper-cleaning"
        assert len(seen.images) == sum(len(section.figures) for section in findings.sections) > 5
        assert all(seen.images)
        assert seen.messages == []
        assert seen.overflow == 0


def test_the_figure_of_the_search_shows_a_panel_for_each_method_and_no_empty_one() -> None:
    shown = [axes for axes in figures.search(_found()).axes if axes.axison]
    assert [axes.get_title() for axes in shown] == sorted(METHODS, key=lambda method: (method != "bome", method))
    assert all(axes.lines for axes in shown)


def test_f1_of_an_ablation_is_framed_without_its_start() -> None:
    def entry(end: float) -> Entry:
        outcome = _outcome("bome", 1.0, f1=end)
        rows = [{"step": 0, "f1": 0.0}, {"step": 2, "f1": 80.0}, {"step": 4, "f1": end}]
        return Entry("bome", {}, (replace(outcome, history=rows),), 3.0)

    (panel,) = figures.ablation({"a": entry(90.0), "b": entry(95.0)}, ("f1",), "step").axes
    low, high = panel.get_ylim()
    assert 70 < low < 80
    assert 95 < high < 100
