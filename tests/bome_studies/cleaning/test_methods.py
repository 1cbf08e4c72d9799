"""The baselines of the cleaning study against other solvers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from bome.estimators.rows import Rows
from bome.estimators.softmax import Affine
from bome_studies.cleaning import methods as methods
from bome_studies.cleaning import trials as trials
from bome_studies.cleaning.data import Cell, draw
from bome_studies.cleaning.trials import judged

Array = NDArray[Any]


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
