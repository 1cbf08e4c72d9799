"""The one encoder: scales, categories, and what goes into a file."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from bome.errors import ProblemError
from bome.tables import encoder as module
from bome.tables.encoder import LIMIT, Category, Encoder, is_numeric


def test_features_of_different_ranges_have_a_scale_each() -> None:
    x = np.random.default_rng(0).standard_normal((200, 3)) * [1, 10, 100] + [5, 0, -7]
    scaled = Encoder().fit(x).transform(x)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.std(axis=0), 1)


def test_pixels_have_one_scale() -> None:
    x = np.random.default_rng(0).integers(0, 17, (100, 9)).astype(float)
    x[:, 0] = 3.0  # a pixel at the edge never changes
    scaled = Encoder().fit(x).transform(x)
    ratio = (x - x.mean(axis=0))[:, 1:] / scaled[:, 1:]
    np.testing.assert_allclose(ratio, ratio[0, 0])
    np.testing.assert_array_equal(scaled[:, 0], 0)


def test_sparse_features_are_not_centred_and_their_rows_have_length_1_on_average() -> None:
    x = sparse.random(50, 8, 0.3, "csr", random_state=0)
    scaled = Encoder().fit(x).transform(x)
    assert sparse.issparse(scaled)
    assert scaled.nnz == x.nnz
    assert scaled.multiply(scaled).sum() / 50 == pytest.approx(1)


def test_no_value_outweighs_all_others() -> None:
    encoder = Encoder().fit(np.array([[0.0], [1.0]]))
    assert encoder.transform(np.array([[1e9], [-1e9]])).tolist() == [[LIMIT], [-LIMIT]]


def test_large_tables_are_held_in_half_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal((10, 2))
    assert Encoder().fit(x).transform(x).dtype == np.float64
    monkeypatch.setattr(module, "SMALL", 19)
    assert Encoder().fit(x).transform(x).dtype == np.float32


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_categories_of_a_frame_are_a_column_for_each_value(make: Any) -> None:
    frame = make({"kind": ["b", "a", "b"], "size": [1.0, 2.0, 3.0], "new": [True, False, True]})
    encoded = Encoder().fit(frame).transform(frame)
    np.testing.assert_array_equal(encoded[:, 1:], [[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1]])
    unseen = Encoder().fit(frame).transform(make({"kind": ["c"], "size": [2.0], "new": [True]}))
    assert unseen.tolist() == [[0, 0, 0, 0, 1]]


def test_a_frame_of_categories_alone_has_no_numbers_to_scale() -> None:
    frame = pd.DataFrame({"kind": ["b", "a", "b"]})
    assert Encoder().fit(frame).transform(frame).tolist() == [[0, 1], [1, 0], [0, 1]]


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_an_encoder_survives_a_file(form: Any) -> None:
    x = form(np.random.default_rng(0).standard_normal((20, 3)) * [1, 10, 100])
    encoder = Encoder().fit(x)
    again = Encoder.from_arrays(encoder.to_arrays())
    difference = again.transform(x) != encoder.transform(x)
    assert not difference.sum()


def test_an_encoder_of_categories_cannot_be_saved() -> None:
    with pytest.raises(ProblemError, match="the encoder of a frame with categories cannot be saved"):
        Encoder().fit(pd.DataFrame({"kind": ["b", "a"]})).to_arrays()


def test_only_frequent_levels_are_kept_where_there_are_too_many() -> None:
    column = pd.Series(["c", "b", "b", "a", "c"])
    assert Category.learn("x", column).levels == ("a", "b", "c")
    assert Category.learn("x", column, 2).levels == ("b", "c")


def test_truth_values_are_no_numbers() -> None:
    assert is_numeric(pd.Series([1, 2]))
    assert not is_numeric(pd.Series([True, False]))
    assert not is_numeric(pd.Series(["1", "2"]))
