"""The choice between candidate models by held-out rows."""

import numpy as np
import pytest

from bome.estimators.guard import choose, robust
from bome.estimators.models import LinearFitter
from bome.estimators.rows import Rows
from bome.estimators.softmax import Affine, calibrated_error, log_loss, probabilities


def drawn(right: float, sure: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits of 400 rows that prefer the label in a share of them, so sure of it."""
    random = np.random.default_rng(seed)
    labels = random.integers(3, size=400)
    preferred = np.where(random.random(400) < right, labels, (labels + 1) % 3)
    return sure * np.eye(3)[preferred], labels


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


def test_the_robust_model_settles_where_the_generalised_cross_entropy_is_stationary(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With many rounds: the gradient of the mean of (1 − p^q)/q, as the benchmark's own implementation has it, is 0."""
    random = np.random.default_rng(0)
    labels = random.integers(3, size=260)
    x = random.standard_normal((260, 4)) + 2 * np.eye(3, 4)[labels]
    given = np.where(random.random(200) < 0.3, random.integers(3, size=200), labels[:200])
    rows = Rows.of(x[:200], given, x[200:], labels[200:], 3)
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
