"""Softmax regression against scikit-learn, and opinions that are made more sure or added."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from bome.estimators.softmax import Affine, calibrated_error, fit_softmax, log_loss, probabilities, stacked


def drawn(right: float, sure: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits of 400 rows that prefer the label in a share of them, so sure of it."""
    random = np.random.default_rng(seed)
    labels = random.integers(3, size=400)
    preferred = np.where(random.random(400) < right, labels, (labels + 1) % 3)
    return sure * np.eye(3)[preferred], labels


def test_softmax_regression_agrees_with_scikit_learn() -> None:
    random = np.random.default_rng(0)
    x, y, w = random.standard_normal((80, 5)), np.arange(80) % 3, random.random(80)
    ours = fit_softmax(x, np.eye(3)[y], w, 0.05)
    theirs = LogisticRegression(C=1 / (0.05 * w.sum()), tol=1e-8, max_iter=1000).fit(x, y, w)
    np.testing.assert_allclose(probabilities(ours.logits(x)), theirs.predict_proba(x), atol=2e-3)


def test_rows_of_weight_0_are_as_if_they_were_not_there() -> None:
    random = np.random.default_rng(0)
    x, targets, kept = random.standard_normal((40, 3)), np.eye(2)[np.arange(40) % 2], np.arange(40) < 30
    some = fit_softmax(x, targets, kept.astype(float), 0.1)
    alone = fit_softmax(x[kept], targets[kept], np.ones(30), 0.1)
    np.testing.assert_array_equal(some.coef, alone.coef)


def test_a_large_logit_does_not_overflow() -> None:
    model = Affine(np.array([[1e4, -1e4]]), np.zeros(2))
    logits = model.logits(np.array([[1.0], [-1.0]]))
    np.testing.assert_array_equal(probabilities(logits), [[1, 0], [0, 1]])
    np.testing.assert_array_equal(log_loss(logits, np.array([0, 0])), [0, 2e4])


@pytest.mark.parametrize("sure", [0.3, 2.0, 12.0])
def test_the_error_at_the_best_temperature_is_that_of_the_share_that_is_right(sure: float) -> None:
    logits, labels = drawn(0.8, sure, 0)
    right = float((logits.argmax(axis=1) == labels).mean())
    # three classes with one preferred: p for it and (1 - p)/2 for the others is best with p = the share that is right
    expected = right * (1 - right) + (1 - right) * (1 - (1 - right) / 2)
    assert calibrated_error(logits, labels).mean() == pytest.approx(expected, abs=1e-4)
    least = -right * np.log(right) - (1 - right) * np.log((1 - right) / 2)
    assert log_loss(stacked((logits,), labels)[0] * logits, labels).mean() == pytest.approx(least, abs=1e-6)


def test_independent_opinions_are_stacked_as_bayes_rule_multiplies_them() -> None:
    """Two witnesses who name the right one of three classes in a share of the rows, and each wrong one equally often.

    Then log P(y | both) is the sum of log(share / ((1 − share)/2)) for the class each of them names.
    """
    random = np.random.default_rng(0)
    labels = random.integers(3, size=200_000)
    shares = (0.8, 0.5)
    named = [
        np.where(random.random(len(labels)) < share, labels, (labels + random.integers(1, 3, len(labels))) % 3)
        for share in shares
    ]
    factors = stacked([np.eye(3)[each] for each in named], labels)
    assert factors == pytest.approx([np.log(2 * share / (1 - share)) for share in shares], abs=0.02)


def test_an_opinion_that_misleads_gets_no_say() -> None:
    good, labels = drawn(0.8, 1.0, 0)
    bad = np.eye(3)[(labels + 1) % 3]
    assert stacked([good, bad], labels)[1] == 0
