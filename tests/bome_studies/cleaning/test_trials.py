"""Trials of the cleaning study: judged, kept, and read."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bome.errors import StorageError
from bome.estimators.rows import Rows
from bome_studies.cleaning import methods as methods
from bome_studies.cleaning import trials as trials
from bome_studies.cleaning.data import Cell, draw
from bome_studies.cleaning.trials import Trial, judged, scores_of

Array = NDArray[Any]


CELL = Cell("digits", 64, 300, "uniform", 0.5, 100)


def test_answers_are_judged_by_test_labels_and_true_labels() -> None:
    drawn = draw(CELL, 0)
    perfect = methods.Answer(drawn.test_labels, drawn.wrong.astype(float), drawn.wrong)
    assert judged(perfect, drawn) == {"test_accuracy": 100, "auc": 1, "f1": 100}
    opposite = methods.Answer(drawn.test_labels + 1, -drawn.wrong.astype(float), ~drawn.wrong)
    assert judged(opposite, drawn) == {"test_accuracy": 0, "auc": 0, "f1": 0}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Two quick methods in place of all; each call is noted."""
    made: list[int] = []

    def quick(rows: Rows, test_x: Array, seed: int) -> methods.Answer:
        made.append(seed)
        return methods.Answer(np.zeros(len(test_x)), np.arange(len(rows.labels)), np.zeros(len(rows.labels), bool))

    def broken(rows: Rows, test_x: Array, seed: int) -> methods.Answer:
        made.append(seed)
        raise ValueError("two\nlines")

    monkeypatch.setattr(trials, "METHODS", {"bome": quick, "all rows": broken})
    return made


def test_each_trial_is_run_once_and_a_damaged_outcome_again(tmp_path: Path, calls: list[int]) -> None:
    told: list[tuple[str, int, int]] = []

    def report(what: str, done: int, total: int) -> None:
        told.append((what, done, total))

    first = scores_of((CELL,), 2, tmp_path, report, 1)
    assert calls == [0, 0, 1, 1]
    assert [(done, total) for _, done, total in told] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert scores_of((CELL,), 2, tmp_path, report, 1) == first
    assert len(calls) == 4
    path = next(tmp_path.rglob("bome-1.json"))
    path.write_text(path.read_text()[:-20])
    scores_of((CELL,), 2, tmp_path, report, 1)
    assert calls[4:] == [1]


def test_what_a_method_raises_is_kept_in_a_line(tmp_path: Path, calls: list[int]) -> None:
    results = scores_of((CELL,), 1, tmp_path, lambda what, done, total: None, 1)
    assert results.failures() == [(Trial(CELL, 0, "all rows"), "ValueError: two lines")]
    assert results.values(CELL, "all rows", "auc") == []
    assert results.scores[Trial(CELL, 0, "bome")].numbers.keys() == set(trials.METRICS)


def test_an_outcome_of_another_trial_under_the_same_name_is_not_taken(tmp_path: Path, calls: list[int]) -> None:
    scores_of((CELL,), 1, tmp_path, lambda what, done, total: None, 1)
    other = replace(CELL, rate=0.501)
    assert other.key == CELL.key
    scores_of((other,), 1, tmp_path, lambda what, done, total: None, 1)
    assert calls == [0] * 4


def test_a_lost_disk_is_no_failure_of_a_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(rows: Rows, test_x: Array, seed: int) -> methods.Answer:
        raise StorageError("disk full")

    monkeypatch.setattr(trials, "METHODS", {"bome": full})
    with pytest.raises(StorageError):
        scores_of((CELL,), 1, tmp_path, lambda what, done, total: None, 1)
    assert not list(tmp_path.rglob("*.json"))
