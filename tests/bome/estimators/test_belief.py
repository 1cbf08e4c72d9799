"""The first opinion on the clean labels, from trusted rows and from labels as they are given."""

import numpy as np
import pytest

from bome.estimators.belief import first_opinion, infer
from bome.estimators.models import LinearFitter
from bome.estimators.rows import Rows
from bome.estimators.softmax import probabilities


def drawn(trusted: int, wrong: str, seed: int = 0) -> tuple[Rows, np.ndarray]:
    """Three overlapping clouds in twenty dimensions with wrong labels, and the right ones of the doubtful rows."""
    random = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(trusted) % 3, random.integers(3, size=900)])
    x = random.standard_normal((len(labels), 20)) + 0.8 * np.eye(3, 20)[labels] * np.sqrt(20) / 2
    true = labels[trusted:]
    random_ones = np.where(random.random(900) < 0.4, random.integers(3, size=900), true)
    given = random_ones if wrong == "some" else (true + 1) % 3
    return Rows.of(x[trusted:], given, x[:trusted], labels[:trusted], 3), true


def right(probability: np.ndarray, true: np.ndarray) -> float:
    return float((probability.argmax(axis=1) == true).mean())


def opinions(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """The first opinion, and that of the trusted rows alone."""
    few, fitter = LinearFitter(0.1), LinearFitter(0.01)
    alone = few.fit(rows.trusted_x, rows.trusted, np.ones(len(rows.trusted_labels)))
    return first_opinion(rows, fitter, few, alone), probabilities(alone.logits(rows.x))


def test_many_doubtful_labels_help_a_few_trusted_rows() -> None:
    rows, true = drawn(15, "some")
    both, alone = opinions(rows)
    assert right(both, true) > right(alone, true) + 0.05
    assert both.sum(axis=1) == pytest.approx(1, abs=1e-6)


def test_labels_that_are_all_wrong_do_no_harm() -> None:
    rows, true = drawn(60, "all")
    both, alone = opinions(rows)
    assert right(both, true) >= right(alone, true) - 0.01


def test_one_trusted_row_of_each_class_cannot_be_held_out() -> None:
    rows, _ = drawn(3, "some")
    both, alone = opinions(rows)
    assert both == pytest.approx(alone, abs=1e-6)


def test_posteriors_follow_bayes_rule() -> None:
    """Two classes, sure models: class 0 is given as 0 or 1 alike, class 1 always as 1."""
    clean = np.repeat(np.eye(2), [1000, 1000], axis=0)
    labels = np.r_[np.arange(1000) % 2, np.ones(1000, dtype=int)]
    _, confusion = infer(clean, labels)
    np.testing.assert_allclose(confusion, np.array([[0.5, 0.5], [0.0, 1.0]]), atol=1e-3)
    unsure, _ = infer(np.full((4, 2), 0.5), np.array([0, 0, 1, 1]))
    np.testing.assert_allclose(unsure, 0.5)
