"""What a user gives an estimator, and how it is refused."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from bome.errors import ProblemError
from bome.estimators.features import check_known, checked, checked_labels, checked_mask


def test_numbers_become_a_float_array_and_frames_with_categories_stay_frames() -> None:
    assert checked([[1, 2], [3, 4]]).dtype == np.float64
    assert checked(np.ones((2, 2), np.float32)).dtype == np.float32
    assert checked(sparse.coo_matrix(np.eye(2))).format == "csr"
    assert isinstance(checked(pd.DataFrame({"a": [1.0, 2.0]})), np.ndarray)
    assert isinstance(checked(pd.DataFrame({"a": ["x", "y"]})), pd.DataFrame)


def test_a_missing_value_of_a_frame_is_named() -> None:
    with pytest.raises(ProblemError, match="column 'a' has a missing value in row 1; fill it in or drop it"):
        checked(pd.DataFrame({"a": ["x", None]}))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, "requires y to be passed"),
        (np.array(["u", None], dtype=object), "y contains NaN"),
        (np.array([1.0, np.nan]), "Input y contains NaN"),
    ],
)
def test_labels_that_are_missing_are_refused(labels: Any, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        checked_labels(labels, np.eye(2))


def test_labels_of_text_are_text() -> None:
    assert checked_labels(pd.Series(["u", "v"]), np.eye(2)).dtype.kind == "U"
    assert checked_labels([1, 0], np.eye(2)).tolist() == [1, 0]


def test_a_mask_says_of_each_row_whether_it_is_trusted() -> None:
    assert checked_mask([0, 1, 1], 3).tolist() == [False, True, True]
    for mask, message in (
        ([True], "for each of the 3 rows"),
        ([0, 1, 2], "True or False"),
        ([0, 0, 0], "marks no row"),
    ):
        with pytest.raises(ProblemError, match=message):
            checked_mask(mask, 3)


def test_labels_that_no_training_row_has_are_named() -> None:
    check_known(np.array([0, 1]), np.array([1]))
    with pytest.raises(ProblemError, match="y_val has labels that y has not: 'c'"):
        check_known(np.array(["a", "b"]), np.array(["a", "c"]))
