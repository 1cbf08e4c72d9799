"""A table with wrong labels to show cleaning on: the handwritten digits that ship with scikit-learn."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from bome.apps.clean import prediction
from bome.apps.clean.inputs import Request
from bome.apps.clean.outputs import ISSUES
from bome.storage.atomic import write_atomic

TRAIN, TRUSTED, TEST, LABEL = "train.csv", "trusted.csv", "test.csv", "digit"
ROWS, TRUSTED_ROWS, NOISE = 1200, 100, 0.4


@dataclass(frozen=True)
class Digits:
    """The tables and what is known of them.

    Attributes:
        request: what is to be cleaned.
        test: rows that no model has seen, with their labels.
        wrong: which labels of the training table were made wrong.
        folder: where the tables are.
    """

    request: Request
    test: Path
    wrong: NDArray[np.bool_]
    folder: Path


@dataclass(frozen=True)
class Judgement:
    """A cleaning held against the truth.

    Attributes:
        wrong: the number of wrong labels.
        found: how many of them are called suspicious.
        called: how many rows are.
        accuracy: of the cleaned model on rows that no model has seen.
        plain: the accuracy of a model of all rows as they are.
        trusted: that of a model of the trusted rows alone.
    """

    wrong: int
    found: int
    called: int
    accuracy: float
    plain: float
    trusted: float


def write_digits(folder: Path, seed: int) -> Digits:
    """Write the tables; of the labels of the training table `NOISE` are replaced by others."""
    random = np.random.default_rng(seed)
    pixels, labels = load_digits(return_X_y=True)
    order = random.permutation(len(labels))
    frame = pd.DataFrame(pixels[order].astype(int), columns=[f"pixel{i}" for i in range(pixels.shape[1])])
    frame[LABEL] = labels[order]
    parts = np.split(np.arange(len(frame)), [ROWS, ROWS + TRUSTED_ROWS])
    train, trusted, test = (frame.iloc[part].reset_index(drop=True) for part in parts)
    wrong = random.random(ROWS) < NOISE
    train.loc[wrong, LABEL] = (train.loc[wrong, LABEL] + random.integers(1, 10, wrong.sum())) % 10
    for name, part in ((TRAIN, train), (TRUSTED, trusted), (TEST, test)):
        write_atomic(folder / name, part.to_csv(index=False, lineterminator="\n"))
    return Digits(Request(folder / TRAIN, folder / TRUSTED, LABEL, seed=seed), folder / TEST, wrong, folder)


def judge(digits: Digits, cleaned: Path) -> Judgement:
    """Hold the outcome in a folder against the truth."""
    called = np.zeros(len(digits.wrong), dtype=bool)
    called[pd.read_csv(cleaned / ISSUES)["row"]] = True
    outcome = prediction.predict(cleaned, digits.test, digits.folder / "predictions.csv")
    return Judgement(
        wrong=int(digits.wrong.sum()),
        found=int((called & digits.wrong).sum()),
        called=int(called.sum()),
        accuracy=outcome["accuracy"],
        plain=_accuracy(digits.request.train, digits.test),
        trusted=_accuracy(digits.request.trusted, digits.test),
    )


def _accuracy(train: Path, test: Path) -> float:
    """Of scikit-learn's logistic regression."""
    fitted, judged = pd.read_csv(train), pd.read_csv(test)
    model = LogisticRegression(max_iter=1000).fit(fitted.drop(columns=LABEL) / 16, fitted[LABEL])
    return float(model.score(judged.drop(columns=LABEL) / 16, judged[LABEL]))
