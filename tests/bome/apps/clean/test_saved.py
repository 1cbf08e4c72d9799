"""A saved model predicts as the fitted one, and nothing damaged is believed."""

import dataclasses
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy

from bome.apps.clean import saved
from bome.errors import ProblemError, StorageError
from bome.estimators import HyperCleaner
from bome.estimators.softmax import Affine, probabilities
from bome.tables.encoder import Encoder
from bome.tables.layout import Layout
from bome.tables.values import Table


def small() -> saved.SavedModel:
    drawn = np.random.default_rng(0)
    encoder = Encoder().fit(drawn.standard_normal((20, 3)) * [1, 10, 100])
    softmax = Affine(drawn.standard_normal((3, 2)), drawn.standard_normal(2))
    return saved.SavedModel("y", ("no", "=yes()"), Layout(("a", "b", "c")), encoder, softmax)


def table() -> Table:
    values = np.random.default_rng(1).standard_normal((7, 3)).astype(np.float32)
    return Table(Path("t.csv"), pd.DataFrame(values, columns=["a", "b", "c"]), None)


def test_a_model_read_back_predicts_the_same(tmp_path: Path) -> None:
    model = small()
    saved.save(tmp_path / "m", model)
    again = saved.load(tmp_path / "m")
    assert (again.label, again.classes, again.layout) == (model.label, model.classes, model.layout)
    np.testing.assert_array_equal(again.predict_proba(table()), model.predict_proba(table()))


def test_the_probabilities_are_those_of_the_formula(tmp_path: Path) -> None:
    model = small()
    saved.save(tmp_path / "m", model)
    x = model.encoder.transform(table().frame.to_numpy())
    expected = probabilities(x @ model.softmax.coef + model.softmax.intercept)
    np.testing.assert_allclose(saved.load(tmp_path / "m").predict_proba(table()), expected, rtol=1e-5)


def test_a_fitted_cleaner_and_its_saved_model_agree(tmp_path: Path) -> None:
    drawn = np.random.default_rng(0)
    y = drawn.integers(0, 2, 80)
    x = (drawn.standard_normal((80, 3)) + 2 * y[:, None]).astype(np.float32)
    labels = np.array(["no", "yes"], dtype=object)[y]
    cleaner = HyperCleaner(random_state=0).fit(x[:60], labels[:60], x[60:], labels[60:])
    saved.save(tmp_path / "m", saved.of_cleaner(cleaner, Layout(("a", "b", "c")), "y"))
    given = Table(Path("t.csv"), pd.DataFrame(x, columns=["a", "b", "c"]), None)
    np.testing.assert_allclose(saved.load(tmp_path / "m").predict_proba(given), cleaner.predict_proba(x), atol=1e-6)


def test_what_is_missing_or_no_model_is_told(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="does not exist: make it with 'bome clean'"):
        saved.load(tmp_path / "m")
    for content in (b"", b"x", b"\x80\x04K\x01.", b"\xff" * 100, b"PK\x03\x04"):
        (tmp_path / "m").write_bytes(content)
        with pytest.raises(StorageError, match="is damaged: it is not a model"):
            saved.load(tmp_path / "m")


def test_another_format_is_told(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(safetensors.numpy.save({"coef": np.zeros((1, 2))}, {"bome": '{"format": 9}'}))
    with pytest.raises(StorageError, match="format version 9; this version of bome reads 1"):
        saved.load(tmp_path / "m")


@pytest.mark.parametrize(
    "change",
    [
        {"classes": ("one",)},
        {"softmax": Affine(np.zeros(3), np.zeros(2))},
        {"softmax": Affine(np.zeros((3, 4)), np.zeros(4))},
    ],
    ids=["classes", "flat", "wide"],
)
def test_a_model_that_does_not_fit_together_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    saved.save(tmp_path / "m", dataclasses.replace(small(), **change))  # type: ignore[arg-type]
    with pytest.raises(StorageError, match="content is malformed"):
        saved.load(tmp_path / "m")


def test_no_flipped_bit_goes_unseen(tmp_path: Path) -> None:
    saved.save(tmp_path / "m", small())
    good = (tmp_path / "m").read_bytes()
    drawn = random.Random(0)  # noqa: S311 - no secret
    for _ in range(500):
        bad = bytearray(good)
        bad[drawn.randrange(len(bad))] ^= 1 << drawn.randrange(8)
        (tmp_path / "m").write_bytes(bad)
        try:
            found = saved.load(tmp_path / "m")
        except StorageError:
            continue
        assert (found.label, found.classes) == ("y", ("no", "=yes()"))
        np.testing.assert_array_equal(found.predict_proba(table()), small().predict_proba(table()))
