"""Applying a saved model to another table."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bome.apps.clean import saved
from bome.apps.clean.prediction import predict
from bome.apps.clean.saved import SavedModel
from bome.errors import ProblemError
from bome.estimators.softmax import Affine
from bome.tables.encoder import Encoder
from bome.tables.layout import Layout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a model that says "yes" where a is positive."""
    encoder = Encoder.from_arrays({"mean": np.zeros(1), "scale": np.asarray(1.0)})
    model = SavedModel("y", ("no", "yes"), Layout(("a",)), encoder, Affine(np.array([[-5.0, 5.0]]), np.zeros(2)))
    saved.save(tmp_path / saved.MODEL, model)
    return tmp_path


def test_each_row_has_its_likeliest_class(folder: Path) -> None:
    (folder / "t.csv").write_text("b,a,y\nx,1,yes\nx,-2,yes\nx,0.5,maybe\n")
    outcome = predict(folder, folder / "t.csv", folder / "p.csv")
    assert outcome == {"rows": 3, "labelled": 2, "accuracy": 0.5, "predictions": str(folder / "p.csv")}
    predictions = pd.read_csv(folder / "p.csv")
    assert predictions["prediction"].tolist() == ["yes", "no", "yes"]
    assert predictions["confidence"].tolist() == pytest.approx([1.0, 1.0, 1 / (1 + np.exp(-5))], abs=1e-4)


def test_without_labels_there_is_no_accuracy(folder: Path) -> None:
    (folder / "t.csv").write_text("a\n1\n")
    assert predict(folder / saved.MODEL, folder / "t.csv", folder / "p.csv")["accuracy"] is None


def test_a_table_that_the_model_cannot_read_is_refused(folder: Path) -> None:
    (folder / "t.csv").write_text("b\n1\n")
    with pytest.raises(ProblemError, match=r"has no column 'a' \(which the model needs\)"):
        predict(folder, folder / "t.csv", folder / "p.csv")
    with pytest.raises(ProblemError, match="is the table itself"):
        predict(folder, folder / "t.csv", folder / "t.csv")
    with pytest.raises(ProblemError, match="is not a directory: name one that 'bome clean' wrote"):
        predict(folder / "nowhere", folder / "t.csv", folder / "p.csv")
