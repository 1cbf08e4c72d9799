"""The digits with wrong labels that `bome demo` cleans."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bome.apps.clean import example, prediction
from bome.apps.clean.example import LABEL, NOISE, ROWS, TRUSTED_ROWS, judge, write_digits


def test_the_tables_are_those_of_the_seed(tmp_path: Path) -> None:
    digits = write_digits(tmp_path, 3)
    train, trusted = pd.read_csv(digits.request.train), pd.read_csv(digits.request.trusted)
    assert (len(train), len(trusted)) == (ROWS, TRUSTED_ROWS)
    assert digits.wrong.mean() == pytest.approx(NOISE, abs=0.05)
    assert list(train.columns) == [*(f"pixel{i}" for i in range(64)), LABEL]
    again = write_digits(tmp_path / "again", 3)
    assert again.request.train.read_bytes() == digits.request.train.read_bytes()


def test_a_cleaning_is_held_against_the_truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digits = write_digits(tmp_path, 0)
    called = np.flatnonzero(digits.wrong)[:10].tolist() + np.flatnonzero(~digits.wrong)[:5].tolist()
    pd.DataFrame({"row": called}).to_csv(tmp_path / "issues.csv", index=False)
    monkeypatch.setattr(prediction, "predict", lambda *places: {"accuracy": 0.5})
    monkeypatch.setattr(example, "_accuracy", lambda train, test: 0.25 if train == digits.request.train else 0.75)
    judgement = judge(digits, tmp_path)
    assert (judgement.called, judgement.found, judgement.wrong) == (15, 10, digits.wrong.sum())
    assert (judgement.accuracy, judgement.plain, judgement.trusted) == (0.5, 0.25, 0.75)
