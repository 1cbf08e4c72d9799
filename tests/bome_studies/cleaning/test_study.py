"""The cleaning benchmark: its noise, its baselines against other solvers, its claims, and how it is stored."""

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import sparse

from bome.errors import ProblemError, StorageError
from bome.estimators.rows import Rows
from bome.estimators.softmax import Affine
from bome_studies.cleaning import methods as methods
from bome_studies.cleaning import trials as trials
from bome_studies.cleaning.claims import behind, claims, to_best
from bome_studies.cleaning.data import KINDS, Cell, Kind, draw, noisy
from bome_studies.cleaning.study import PROTOCOLS, findings
from bome_studies.cleaning.trials import Outcome, Results, Trial, carry_out, judged
from bome_studies.study import Claim

Array = NDArray[Any]

CELL = Cell("digits", 64, 300, "uniform", 0.5, 100)


# --- data -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_noise_has_its_share_of_wrong_labels(kind: Kind, rate: float) -> None:
    """Uniform draws among 10 classes stay right with probability 1/10; other kinds are wrong wherever they act."""
    random = np.random.default_rng(0)
    x, labels = random.standard_normal((20_000, 12)), random.integers(0, 10, 20_000)
    given = noisy(x, labels, 10, kind, rate, random)
    expected = rate * (0.9 if kind in ("uniform", "per-class") else 1.0)
    assert np.mean(given != labels) == pytest.approx(expected, abs=0.02)
    assert set(given) == set(range(10))


def test_pairs_lead_to_the_next_class_only() -> None:
    labels = np.arange(1000) % 4
    given = noisy(np.ones((1000, 1)), labels, 4, "pairs", 0.5, np.random.default_rng(0))
    assert set((given - labels) % 4) == {0, 1}


def test_per_class_noise_differs_between_classes_and_uniform_noise_does_not() -> None:
    random = np.random.default_rng(0)
    labels = np.arange(40_000) % 4

    def spread(kind: Kind) -> float:
        given = noisy(np.ones((40_000, 1)), labels, 4, kind, 0.5, random)
        rates = [float(np.mean(given[labels == own] != own)) for own in range(4)]
        return max(rates) - min(rates)

    assert spread("per-class") > 0.5  # 0.9 · 0.75 wide
    assert spread("uniform") < 0.05


def test_instance_noise_depends_on_the_features_also_of_sparse_rows() -> None:
    random = np.random.default_rng(0)
    x = np.repeat(random.standard_normal((2, 30)), 2000, axis=0)
    labels = np.zeros(4000, dtype=int)
    given = noisy(sparse.csr_matrix(x), labels, 5, "instance", 0.6, random)
    shares = [np.bincount(half[half > 0], minlength=5)[1:] / (half > 0).sum() for half in (given[:2000], given[2000:])]
    assert np.abs(shares[0] - shares[1]).max() > 0.2  # equal rows of one class, other rows of the same class


def test_a_cell_is_drawn_alike_each_time_and_its_parts_are_apart() -> None:
    first = draw(CELL, 3)
    draw.cache_clear()
    again, other = draw(CELL, 3), draw(CELL, 4)
    assert np.array_equal(first.rows.x, again.rows.x)
    assert np.array_equal(first.rows.labels, again.rows.labels)
    assert not np.array_equal(first.rows.x, other.rows.x)
    assert first.rows.x.shape == (300, 64)
    assert set(first.rows.trusted_labels) == set(range(10))
    both = {row.tobytes() for row in first.rows.x} & {row.tobytes() for row in first.rows.trusted_x}
    assert not both
    assert not {row.tobytes() for row in first.test_x} & {row.tobytes() for row in first.rows.x}


def test_cells_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ProblemError, match="fewer than the"):
        draw(Cell("digits", 64, 1_400, "uniform", 0.5, 100), 0)
    with pytest.raises(ProblemError, match="too few for 10 classes"):
        draw(Cell("digits", 64, 100, "uniform", 0.5, 9), 0)
    with pytest.raises(ProblemError, match="evenly"):
        draw(Cell("digits", 63, 100, "uniform", 0.5, 20), 0)


def test_presets_have_the_cells_that_the_aims_speak_of() -> None:
    for preset in ("quick", "paper"):
        protocol = PROTOCOLS[preset]
        assert protocol.seeds >= 5
        assert len(set(protocol.cells)) == len(protocol.cells)
        for data in ("digits", "mnist", "fashion", "20news"):
            own = [cell for cell in protocol.cells if cell.data.startswith(data)]
            assert {cell.kind for cell in own} == set(KINDS)
            assert min(cell.rate for cell in own) == 0.2
            assert max(cell.rate for cell in own) == 0.9
        assert any(cell.data == "mnist" and cell.rate == 0.5 for cell in protocol.cells)
    assert {cell.trusted for cell in PROTOCOLS["paper"].cells} >= {50, 5_000}
    assert (len(PROTOCOLS["smoke"].cells), PROTOCOLS["smoke"].seeds) == (2, 2)


# --- baselines --------------------------------------------------------------------------------------------------------


def _rows() -> Rows:
    """Three classes in the plane; a third of 90 labels wrong."""
    random = np.random.default_rng(0)
    centres = np.array([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]])
    labels = np.arange(120) % 3
    x = centres[labels] + random.standard_normal((120, 2))
    given = np.where(random.random(90) < 0.33, (labels[:90] + 1) % 3, labels[:90])
    return Rows.of(x[:90], given, x[90:], labels[90:], 3)


def _by_torch(rows: Rows, doubtful: Callable[[torch.Tensor], torch.Tensor], ridge: float) -> Array:
    """Probabilities of the doubtful rows by the model that minimises a loss, found by Newton-like steps of torch."""
    x, trusted = torch.tensor(rows.x), torch.tensor(rows.trusted_x)
    coef = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([coef, bias], max_iter=500, tolerance_grad=1e-9, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        plain = torch.nn.functional.cross_entropy(
            trusted @ coef + bias, torch.tensor(rows.trusted_labels), reduction="none"
        )
        losses = torch.cat([doubtful((x @ coef + bias).softmax(1)), plain])
        loss = losses.mean() + ridge / 2 * (coef * coef).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimiser.step(closure)  # type: ignore[no-untyped-call]
    return np.asarray((x @ coef + bias).softmax(1).detach().numpy())


def _probabilities(model: Affine, rows: Rows) -> Array:
    return np.asarray(torch.tensor(model.logits(rows.x)).softmax(1).numpy())


def test_forward_correction_minimises_its_loss() -> None:
    rows = _rows()
    confusion = np.array([[0.7, 0.3, 0.0], [0.0, 0.7, 0.3], [0.3, 0.0, 0.7]])
    likelihood = torch.tensor(confusion)[:, rows.labels].T
    expected = _by_torch(rows, lambda p: -(p * likelihood).sum(1).log(), 0.01)
    found = methods.fit_forward(rows, confusion, 0.01, None)
    np.testing.assert_allclose(_probabilities(found, rows), expected, atol=2e-3)


def test_generalised_cross_entropy_minimises_its_loss() -> None:
    rows = _rows()
    places = torch.arange(90), torch.tensor(rows.labels)
    expected = _by_torch(rows, lambda p: (1 - p[places] ** 0.7) / 0.7, 0.01)
    found = methods.fit_generalised(rows, 0.01, None)
    np.testing.assert_allclose(_probabilities(found, rows), expected, atol=2e-3)


def test_the_confusion_is_the_mean_prediction_for_trusted_rows_of_a_class() -> None:
    rows = _rows()
    model = Affine(np.zeros((2, 3)), np.log([0.5, 0.3, 0.2]))
    np.testing.assert_allclose(methods.estimated_confusion(model, rows), np.tile([0.5, 0.3, 0.2], (3, 1)))


def test_the_ridge_with_the_most_hits_on_held_out_trusted_rows_is_chosen() -> None:
    rows, asked = _rows(), []

    def fit(some: Rows, ridge: float, start: Affine | None) -> Affine:
        asked.append((ridge, len(some.trusted_labels)))
        good = 1.0 if ridge == 0.03 else -1.0  # the classes lie at these centres, or opposite
        return Affine(good * np.array([[0.0, 2.0, -2.0], [2.0, -1.0, -1.0]]), np.zeros(3))

    model, ridge = methods.tuned(fit, rows)
    assert ridge == 0.03
    assert (model.logits(rows.trusted_x).argmax(axis=1) == rows.trusted_labels).mean() > 0.8
    assert {count for _, count in asked[:-1]} == {24}  # each fold holds out 6 of 30
    assert asked[-1] == (0.03, 30)


@pytest.mark.parametrize("name", methods.BASELINES)
def test_every_baseline_learns_and_finds_wrong_labels_among_few(name: str) -> None:
    drawn = draw(Cell("digits", 64, 200, "uniform", 0.3, 40), 0)
    numbers = judged(methods.METHODS[name](drawn.rows, drawn.test_x, 0), drawn)
    assert numbers["test_accuracy"] > 70  # chance is 10
    assert numbers["auc"] > 0.85
    assert numbers["f1"] > 60


def test_methods_that_use_trusted_rows_withstand_pairs_that_others_do_not() -> None:
    """With 80 % of the labels moved on by a class, a model of all rows learns the wrong ones."""
    drawn = draw(Cell("digits", 64, 200, "pairs", 0.8, 40), 0)
    accuracy = {
        name: judged(methods.METHODS[name](drawn.rows, drawn.test_x, 0), drawn)["test_accuracy"]
        for name in ("all rows", "trusted only", "GLC")
    }
    assert accuracy["all rows"] < 60
    assert min(accuracy["trusted only"], accuracy["GLC"]) > 70


def test_answers_are_judged_by_test_labels_and_true_labels() -> None:
    drawn = draw(CELL, 0)
    perfect = methods.Answer(drawn.test_labels, drawn.wrong.astype(float), drawn.wrong)
    assert judged(perfect, drawn) == {"test_accuracy": 100, "auc": 1, "f1": 100}
    opposite = methods.Answer(drawn.test_labels + 1, -drawn.wrong.astype(float), ~drawn.wrong)
    assert judged(opposite, drawn) == {"test_accuracy": 0, "auc": 0, "f1": 0}


# --- claims -----------------------------------------------------------------------------------------------------------

CELLS = tuple(Cell("mnist", 196, 100, "uniform", rate, 50) for rate in (0.2, 0.5, 0.7, 0.9))


def _results(accuracy: Callable[[Cell, str, int], float], auc: Callable[[str], float] = lambda name: 0.9) -> Results:
    outcomes = {
        Trial(cell, seed, name): Outcome(
            {"test_accuracy": accuracy(cell, name, seed), "auc": auc(name), "f1": 50.0, "seconds": 1.0}
        )
        for cell in CELLS
        for seed in range(3)
        for name in methods.METHODS
    }
    return Results(outcomes, CELLS, 3)


def _holds(results: Results) -> list[bool | None]:
    return [claim.holds for claim in claims(results)]


def test_all_aims_are_reached_by_a_method_that_is_ahead_everywhere() -> None:
    assert _holds(_results(lambda cell, name, seed: 90.0 if name == "bome" else 80.0)) == [True] * 7


def test_the_bar_is_the_best_baseline_of_each_cell() -> None:
    """GLC is best at 20 %, pruning elsewhere; either of them is 5 points ahead somewhere."""

    def accuracy(cell: Cell, name: str, seed: int) -> float:
        best = "GLC" if cell.rate == 0.2 else "pruning"
        return 90.0 if name == best else 85.0 if name == "bome" else 70.0

    results = _results(accuracy)
    assert [results.best_baseline(cell) for cell in CELLS] == ["GLC", "pruning", "pruning", "pruning"]
    assert [to_best(results, cell)[0] for cell in CELLS] == pytest.approx([-5.0] * 4)
    assert _holds(results)[:3] == [False, False, True]


def test_a_cell_counts_as_behind_only_beyond_a_standard_error_of_paired_differences() -> None:
    """Differences −3, 0, 0 have mean −1 and standard error 1: not behind. Differences −3, −1, −2: behind."""

    def accuracy(differences: tuple[float, ...], cell: Cell, name: str, seed: int) -> float:
        if cell.rate != 0.5 or name not in ("bome", "GLC"):
            return 90.0 if name == "bome" else 50.0
        return 80.0 + 10 * seed + (differences[seed] if name == "bome" else 0)

    assert behind(_results(partial(accuracy, (-3.0, 0.0, 0.0)))) == []
    assert behind(_results(partial(accuracy, (-3.0, -1.0, -2.0)))) == [CELLS[1]]


def test_cleanlab_must_be_beaten_strictly_and_only_under_heavy_noise() -> None:
    def level_at(rate: float) -> Results:
        return _results(lambda cell, name, seed: 90.0 if name == "bome" or cell.rate == rate else 80.0)

    assert [_holds(level_at(rate))[2] for rate in (0.2, 0.5, 0.7, 0.9)] == [True, True, False, False]


@pytest.mark.parametrize(("other", "places"), [("cleanlab", (3, 5)), ("trusted only", (4, 6))])
def test_areas_are_compared_with_each_rival_on_all_cells_and_on_mnist(other: str, places: tuple[int, int]) -> None:
    holds = _holds(_results(lambda cell, name, seed: 90.0, lambda name: 0.95 if name == other else 0.9))
    assert [i for i in range(3, 7) if holds[i] is False] == list(places)


def test_a_failure_of_our_own_counts_as_behind_and_one_of_a_baseline_is_told() -> None:
    results = _results(lambda cell, name, seed: 90.0 if name == "bome" else 80.0)
    broken = {
        Trial(CELLS[0], 1, "bome"): Outcome(failure="ValueError: no"),
        Trial(CELLS[1], 0, "GCE"): Outcome(failure="ValueError: never"),
    }
    results = Results({**results.outcomes, **broken}, CELLS, 3)
    assert behind(results) == [CELLS[0]]
    assert math.isnan(results.mean(CELLS[1], "GCE", "auc")[0])
    told = findings(results, "quick")
    assert any("Failed: GCE" in note and "never" in note for note in told.notes)
    assert any(note.startswith("Behind") and "failed" in note for note in told.notes)
    assert [claim.holds for claim in told.claims[:2]] == [False, False]  # one of four cells is more than a tenth
    json.dumps([row.to_dict() for row in told.rows], allow_nan=False)


def test_without_cells_of_a_kind_nothing_is_said() -> None:
    results = _results(lambda cell, name, seed: 90.0)
    light = Results(results.outcomes, CELLS[:1], 3)
    found: list[Claim] = list(claims(light))
    assert [found[2].holds, found[5].holds, found[6].holds] == [None, None, None]


# --- trials -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Two quick methods in place of all; each call is noted."""
    made: list[int] = []

    def quick(rows: Rows, test_x: Array, seed: int) -> methods.Answer:
        made.append(seed)
        return methods.Answer(np.zeros(len(test_x)), np.arange(len(rows.labels)), np.zeros(len(rows.labels), bool))

    def broken(rows: Rows, test_x: Array, seed: int) -> methods.Answer:
        made.append(seed)
        raise ValueError("two\nlines")

    monkeypatch.setattr(trials, "METHODS", {"bome": quick, "all rows": broken})
    return made


def test_each_trial_is_run_once_and_a_damaged_outcome_again(tmp_path: Path, calls: list[int]) -> None:
    told: list[tuple[str, int, int]] = []

    def report(what: str, done: int, total: int) -> None:
        told.append((what, done, total))

    first = carry_out((CELL,), 2, tmp_path, report, 1)
    assert calls == [0, 0, 1, 1]
    assert [(done, total) for _, done, total in told] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert carry_out((CELL,), 2, tmp_path, report, 1) == first
    assert len(calls) == 4
    path = next(tmp_path.rglob("bome-1.json"))
    path.write_text(path.read_text()[:-20])
    carry_out((CELL,), 2, tmp_path, report, 1)
    assert calls[4:] == [1]


def test_what_a_method_raises_is_kept_in_a_line(tmp_path: Path, calls: list[int]) -> None:
    results = carry_out((CELL,), 1, tmp_path, lambda what, done, total: None, 1)
    assert results.failures() == [(Trial(CELL, 0, "all rows"), "ValueError: two lines")]
    assert results.values(CELL, "all rows", "auc") == []
    assert results.outcomes[Trial(CELL, 0, "bome")].numbers.keys() == set(trials.METRICS)


def test_an_outcome_of_another_trial_under_the_same_name_is_not_taken(tmp_path: Path, calls: list[int]) -> None:
    carry_out((CELL,), 1, tmp_path, lambda what, done, total: None, 1)
    path = next(tmp_path.rglob("bome-0.json"))
    told = json.loads(path.read_text())
    told["trial"]["cell"]["rate"] = 0.501
    path.write_text(json.dumps(told))
    assert trials.read(tmp_path, Trial(CELL, 0, "bome")) is None


def test_a_lost_disk_is_no_failure_of_a_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(rows: Rows, test_x: Array, seed: int) -> methods.Answer:
        raise StorageError("disk full")

    monkeypatch.setattr(trials, "METHODS", {"bome": full})
    with pytest.raises(StorageError):
        carry_out((CELL,), 1, tmp_path, lambda what, done, total: None, 1)
    assert not list(tmp_path.rglob("*.json"))
