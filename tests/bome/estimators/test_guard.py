"""The choice between candidate models by held-out rows."""

import numpy as np
import pytest

from bome.estimators.guard import choose, robust
from bome.estimators.models import LinearFitter
from bome.estimators.rows import Rows
from bome.estimators.softmax import Affine, calibrated_error, log_loss, probabilities, stacked


def drawn(right: float, sure: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits of 400 rows that prefer the label in a share of them, so sure of it."""
    random = np.random.default_rng(seed)
    labels = random.integers(3, size=400)
    preferred = np.where(random.random(400) < right, labels, (labels + 1) % 3)
    return sure * np.eye(3)[preferred], labels


@pytest.mark.parametrize("sure", [0.3, 2.0, 12.0])
def test_the_error_at_the_best_temperature_is_that_of_the_share_that_is_right(sure: float) -> None:
    logits, labels = drawn(0.8, sure, 0)
    right = float((logits.argmax(axis=1) == labels).mean())
    # three classes with one preferred: p for it and (1 - p)/2 for the others is best with p = the share that is right
    expected = right * (1 - right) + (1 - right) * (1 - (1 - right) / 2)
    assert calibrated_error(logits, labels).mean() == pytest.approx(expected, abs=1e-4)
    least = -right * np.log(right) - (1 - right) * np.log((1 - right) / 2)
    assert log_loss(stacked((logits,), labels)[0] * logits, labels).mean() == pytest.approx(least, abs=1e-6)


@pytest.mark.parametrize("sure", [0.1, 30.0])
def test_a_better_candidate_wins_even_if_it_is_too_sure_or_not_sure_enough(sure: float) -> None:
    better, labels = drawn(0.9, sure, 0)
    worse, _ = drawn(0.8, 2.5, 0)
    assert log_loss(better, labels).mean() > log_loss(worse, labels).mean()
    verdict = choose({"cleaned": worse[None], "relabelled": np.stack([worse, better])}, labels)
    assert (verdict.name, verdict.number) == ("relabelled", 1)
    assert "'relabelled' has the lowest expected error" in verdict.reason
    assert verdict.table["candidate"].tolist() == ["cleaned", "relabelled"]
    assert verdict.table["error"].iloc[1] == pytest.approx(calibrated_error(better, labels).mean())


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


def test_the_robust_model_settles_where_the_generalised_cross_entropy_is_stationary(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With many rounds: the gradient of the mean of (1 − p^q)/q, as the benchmark's own implementation has it, is 0."""
    random = np.random.default_rng(0)
    labels = random.integers(3, size=260)
    x = random.standard_normal((260, 4)) + 2 * np.eye(3, 4)[labels]
    given = np.where(random.random(200) < 0.3, random.integers(3, size=200), labels[:200])
    rows = Rows(x[:200], given, x[200:], labels[200:], 3)
    fitter = LinearFitter(0.01)
    start = fitter.fit(rows.trusted_x, rows.trusted, np.ones(60))
    monkeypatch.setattr("bome.estimators.guard.ROBUST_ROUNDS", 60)
    found = robust(rows, fitter, start)
    assert isinstance(found, Affine)
    p = probabilities(found.logits(x))
    weights = np.concatenate([p[np.arange(200), given] ** 0.7, np.ones(60)])
    slope = weights[:, None] * (p - np.concatenate([rows.given, rows.trusted])) / weights.sum()
    assert np.abs(x.T @ slope + 0.01 * found.coef).max() < 1e-4
    assert np.abs(slope.sum(axis=0)).max() < 1e-4
