"""Doubtful and trusted rows: their order, their folds, and which are copies of each other."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from bome import HyperCleaner
from bome.estimators import rows as module
from bome.estimators.rows import Rows, copies, folds, marks, natural_order, one_hot, stack, trusted_folds


def few() -> Rows:
    x = np.arange(12.0).reshape(6, 2)
    return Rows.of(x[:4], np.array([0, 1, 0, 1]), x[4:], np.array([1, 0]), 2)


def test_parts_of_rows_keep_their_marks() -> None:
    rows = few()
    part = rows.some(np.array([3, 0])).with_trusted(np.array([1]))
    assert part.marks.tolist() == marks(part.x).tolist()
    assert part.trusted_marks.tolist() == marks(part.trusted_x).tolist()
    assert part.labels.tolist() == [1, 0]
    assert part.trusted_labels.tolist() == [0]
    np.testing.assert_array_equal(rows.given, one_hot(rows.labels, 2))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_marks_tell_rows_apart(form: Any) -> None:
    x = form(np.array([[0, 1.0], [1, 0], [0, 1], [0, 2], [0, 0]]))
    numbers = marks(x).tolist()
    assert numbers[0] == numbers[2]
    assert len(set(numbers)) == 4


@pytest.mark.parametrize("apart", [True, False], ids=["trusted rows apart", "trusted rows marked"])
def test_a_fit_hashes_each_row_once(monkeypatch: pytest.MonkeyPatch, apart: bool) -> None:
    random = np.random.default_rng(0)
    y = np.arange(90) % 2
    x = random.standard_normal((90, 3)) + 2 * y[:, None]
    hashed: list[Any] = []

    def counted(row: Any) -> int:
        hashed.append(row)
        return hash(row)

    monkeypatch.setattr(module, "hash", counted, raising=False)
    cleaner = HyperCleaner(guard_folds=3, random_state=0)
    if apart:
        cleaner.fit(x[30:], y[30:], x[:30], y[:30])
    else:
        cleaner.fit(x, y, trusted=np.arange(90) < 30)
    assert len(hashed) == len(set(hashed)) == 90


def test_the_natural_order_depends_on_contents_only() -> None:
    random = np.random.default_rng(0)
    x, labels = random.standard_normal((30, 4)), random.integers(0, 3, 30)
    order = random.permutation(30)
    straight, mixed = natural_order(x, labels, 0), natural_order(x[order], labels[order], 0)
    np.testing.assert_array_equal(x[straight], x[order][mixed])


def test_folds_hold_out_every_row_once_with_equal_shares_of_classes() -> None:
    labels = np.repeat([0, 1], [6, 3])
    held = np.array([mask for _, mask in folds(labels, 3)])
    assert (held.sum(axis=0) == 1).all()
    assert held[:, labels == 1].sum(axis=1).tolist() == [1, 1, 1]


def test_no_class_leaves_the_rows_to_fit() -> None:
    labels = np.array([0, 0, 0, 1, 2, 2])
    for fit, held in trusted_folds(labels, 3):
        assert set(labels[fit]) == {0, 1, 2}
        assert not (fit & held).any()


def test_equal_rows_are_no_copies_where_rows_are_few_kinds() -> None:
    random = np.random.default_rng(0)
    x = random.integers(0, 2, (300, 3)).astype(float)
    same = copies(Rows.of(x[:200], np.zeros(200, int), x[200:], np.zeros(100, int), 2))
    assert (same.twin == -1).all()
    assert same.kind.tolist() == list(range(100))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_copies_are_found_and_stay_in_one_fold(form: Any) -> None:
    x = np.random.default_rng(0).standard_normal((9, 3))
    trusted = x[[0, 7, 0, 8, 7, 6]]
    same = copies(Rows.of(form(x), np.zeros(9, int), form(trusted), np.array([0, 0, 0, 1, 0, 1]), 2))
    assert same.kind.tolist() == [0, 1, 0, 2, 1, 3]
    assert same.twin.tolist() == [0, -1, -1, -1, -1, -1, 3, 1, 2]
    for fit, held in trusted_folds(np.array([0, 0, 0, 1, 0, 1]), 2, same.kind):
        assert (fit != held).all()
        assert held[0] == held[2]
        assert held[1] == held[4]


def test_rows_are_stacked_in_their_own_form() -> None:
    a, b = np.ones((1, 2)), np.zeros((2, 2))
    assert stack(a, b).shape == (3, 2)
    assert sparse.issparse(stack(sparse.csr_matrix(a), sparse.csr_matrix(b)))
