"""The bilevel problem of hyper-cleaning."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bome.estimators.models import LinearFitter
from bome.estimators.rows import Rows
from bome.estimators.weighting import FULL_BATCH, Plateau, learn_factors


def rows() -> tuple[Rows, Any]:
    """Two separated classes; three labels in ten of the doubtful rows are wrong."""
    random = np.random.default_rng(0)
    y = np.arange(160) % 2
    x = random.standard_normal((160, 3)) + 3 * y[:, None]
    wrong = random.random(120) < 0.3
    given = np.where(wrong, 1 - y[:120], y[:120])
    return Rows.of(x[:120], given, x[120:], y[120:], 2), wrong


@pytest.mark.filterwarnings("ignore:the inner loss rose")
@pytest.mark.parametrize("batches", [1, 4])
def test_rows_with_wrong_labels_lose_weight(monkeypatch: pytest.MonkeyPatch, batches: int) -> None:
    data, wrong = rows()
    monkeypatch.setattr("bome.estimators.weighting.FULL_BATCH", FULL_BATCH if batches == 1 else 3 * 120 // batches)
    fitter = LinearFitter(0.01)
    start = fitter.fit(data.x, data.given, np.ones(120))
    told: list[tuple[int, int]] = []
    weighting = learn_factors(data, fitter, start, np.ones(120), np.ones(120), 0, lambda *steps: told.append(steps))
    assert ((weighting.factors >= 0) & (weighting.factors <= 1)).all()
    assert weighting.factors[wrong].mean() < weighting.factors[~wrong].mean() - 0.1
    assert [done for done, _ in told] == list(range(1, weighting.result.steps + 1))


def test_a_row_that_is_not_believed_keeps_its_factor() -> None:
    """Its weight is 0 whatever the factor is."""
    data, _ = rows()
    fitter = LinearFitter(0.01)
    belief = np.r_[0.0, np.ones(119)]
    start = fitter.fit(data.x, data.given, belief)
    assert learn_factors(data, fitter, start, belief, np.full(120, 0.5), 0).factors[0] == 0.5


@pytest.mark.parametrize(
    ("losses", "reason"),
    [
        ([1.0] * 5, "the loss on the trusted rows has settled"),
        ([0.5**k for k in range(20)], "20 steps done"),
    ],
)
def test_a_run_ends_where_the_loss_has_settled(losses: list[float], reason: str) -> None:
    stop = Plateau(20, 2)
    reasons = [stop(progress(k, f)) for k, f in enumerate(losses, start=1)]
    assert reasons[-1] == reason
    assert set(reasons[:-1]) == {None}


def progress(step: int, f: float) -> Any:
    return SimpleNamespace(step=step, info=SimpleNamespace(f=f))
