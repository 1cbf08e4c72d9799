"""What a user gives an estimator, checked: features, labels, and which rows are trusted."""

from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from bome._typing import Array
from bome.errors import ProblemError
from bome.tables.encoder import as_pandas, is_frame, is_numeric


def checked(x: Any) -> Any:
    """A float array or CSR matrix without NaN and infinity; frames with categories stay frames."""
    if is_frame(x) and x.shape[0]:
        frame = as_pandas(x)
        for name in frame.columns:
            if frame[name].isna().any():
                row = int(np.flatnonzero(frame[name].isna())[0])
                raise ProblemError(
                    f"Input X contains NaN: column {name!r} has a missing value in row {row}; fill it in or drop it"
                )
        if not all(is_numeric(frame[name]) for name in frame.columns):
            return frame
    return check_array(x, accept_sparse="csr", dtype=[np.float64, np.float32])


def checked_labels(y: Any, features: Any) -> Array:
    """The labels of these rows, none of them missing."""
    if y is None:
        raise ProblemError("this estimator requires y to be passed, but the target y is None")
    labels = column_or_1d(np.asarray(y), warn=True)
    if labels.dtype == object and any(label is None or label != label for label in labels):
        raise ProblemError("y contains NaN: drop the rows without a label, or label them")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ProblemError("Input y contains NaN or infinity: drop the rows without a label, or label them")
    check_classification_targets(labels)
    check_consistent_length(features, labels)
    texts = labels.dtype == object and all(isinstance(label, str) for label in labels)
    return np.asarray(labels.astype(str) if texts else labels)


def checked_mask(trusted: Any, n: int) -> Array:
    """Which of n rows are trusted, at least one."""
    mask = np.asarray(trusted)
    if mask.shape != (n,) or not (mask.dtype == bool or np.isin(mask, (0, 1)).all()):
        raise ProblemError(f"trusted must be a mask with one True or False for each of the {n} rows of X")
    mask = mask.astype(bool)
    if not mask.any():
        raise ProblemError("trusted marks no row: mark some rows whose labels are right")
    return mask


def check_known(given: Array, trusted: Array) -> None:
    """Refuse a label of the validation rows that no training row has: it is misspelt, or of another kind."""
    unknown = sorted(set(trusted.tolist()) - set(given.tolist()), key=str)
    if unknown:
        names = ", ".join(map(repr, unknown[:5]))
        raise ProblemError(f"y_val has labels that y has not: {names}; are they misspelt, or of another type?")
