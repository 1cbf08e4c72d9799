"""A fit that was stopped goes on from its finished parts, and only from its own."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bome.estimators import HyperCleaner, guard


def rows(seed: int) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    y = random.integers(0, 2, 60)
    return random.standard_normal((60, 3)) + 2 * y[:, None], y


def test_an_interrupted_fit_goes_on_and_ends_as_if_nothing_had_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (x, y), (x_val, y_val) = rows(0), rows(1)
    plain = HyperCleaner(guard_folds=3, random_state=0).fit(x, y, x_val, y_val)
    fitted: list[int] = []
    real = guard.learn_candidates

    def counted(*given: Any, **named: Any) -> Any:
        if len(fitted) == 2:
            raise KeyboardInterrupt
        fitted.append(1)
        return real(*given, **named)

    monkeypatch.setattr(guard, "learn_candidates", counted)
    with pytest.raises(KeyboardInterrupt):
        HyperCleaner(guard_folds=3, random_state=0).fit(x, y, x_val, y_val, record=tmp_path)
    fitted.clear()
    again = HyperCleaner(guard_folds=3, random_state=0).fit(x, y, x_val, y_val, record=tmp_path)
    assert len(fitted) == 1  # of the three parts two were there
    np.testing.assert_array_equal(again.sample_weight_, plain.sample_weight_)
    np.testing.assert_array_equal(again.predict_proba(x), plain.predict_proba(x))
    assert again.choice_reason_ == plain.choice_reason_
    fitted.clear()
    with pytest.raises(KeyboardInterrupt):  # other rows have nothing to go on from
        HyperCleaner(guard_folds=3, random_state=0).fit(x + 1, y, x_val, y_val, record=tmp_path)
    assert len(fitted) == 2
