"""A fit that was stopped goes on from its finished stages, and only from its own."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from bome.estimators import HyperCleaner, guard
from bome.storage.stages import Stages, digest


def test_a_stage_is_computed_once(tmp_path: Path) -> None:
    made = {"a": np.arange(3.0), "b": np.array([[True, False]])}
    calls: list[int] = []

    def compute() -> dict[str, Any]:
        calls.append(1)
        return made

    for _ in range(2):
        found = Stages(tmp_path).keep("s", compute)
        assert all((found[key] == made[key]).all() and found[key].dtype == made[key].dtype for key in made)
    assert len(calls) == 1
    Stages(tmp_path).keep("other", compute)
    Stages().keep("s", compute)
    assert len(calls) == 3


def test_a_damaged_stage_is_computed_again(tmp_path: Path) -> None:
    Stages(tmp_path).keep("s", lambda: {"a": np.zeros(2)})
    for path in tmp_path.rglob("*.safetensors"):
        path.write_bytes(b"x")
    assert (Stages(tmp_path).keep("s", lambda: {"a": np.ones(2)})["a"] == 1).all()


def test_the_digest_tells_any_two_inputs_apart() -> None:
    x = np.arange(6.0)
    inputs: list[Any] = [
        x, x.reshape(2, 3), x.astype(np.float32), -x, sparse.csr_matrix(x), sparse.csr_matrix(x[::-1]), 1, "1", None,
        np.array(["a", "bc"], dtype=object), np.array(["ab", "c"], dtype=object),
    ]  # fmt: skip
    assert len({digest([value]) for value in inputs}) == len(inputs)
    assert digest([x]) == digest([x.copy()])


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
