"""Trials of the cleaning study: a method on a cell with a seed, and how well it does."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bome._typing import Report
from bome.core.threads import one_thread
from bome.errors import StorageError
from bome.runs.choice import mean_and_error
from bome_studies.cleaning.data import Cell, Drawn, draw
from bome_studies.cleaning.methods import BASELINES, BOME, METHODS, Answer
from bome_studies.parts import results_of

ACCURACY, AUC, F1, SECONDS = METRICS = ("test_accuracy", "auc", "f1", "seconds")
"""Accuracy and F1 in per cent; AUC and F1 are those of finding wrong labels; seconds are of the processor."""


@dataclass(frozen=True)
class Trial:
    """What is run: a method by its name, on a cell, with a seed."""

    cell: Cell
    seed: int
    method: str

    @property
    def name(self) -> str:
        """Of its file, without a suffix."""
        return f"{self.cell.key}/{self.method.replace(' ', '_')}-{self.seed}"


@dataclass(frozen=True)
class Scores:
    """How a trial went.

    Attributes:
        numbers: each of `METRICS`; empty if it failed.
        failure: what the method raised, in a line; empty if it did not.
    """

    numbers: Mapping[str, float] = field(default_factory=dict)
    failure: str = ""


@dataclass(frozen=True)
class Results:
    """The scores of all trials.

    Attributes:
        scores: by trial.
        cells: in order.
        seeds: how many of each cell.
    """

    scores: Mapping[Trial, Scores]
    cells: tuple[Cell, ...]
    seeds: int

    def values(self, cell: Cell, method: str, metric: str) -> list[float]:
        """A quantity for each seed; empty if the method failed with one of them."""
        values = [self.scores[Trial(cell, seed, method)].numbers.get(metric) for seed in range(self.seeds)]
        return [] if any(value is None for value in values) else [float(value) for value in values if value is not None]

    def mean(self, cell: Cell, method: str, metric: str) -> tuple[float, float | None]:
        """Mean over the seeds and its standard error; NaN if the method failed."""
        return mean_and_error(self.values(cell, method, metric))

    def best_baseline(self, cell: Cell) -> str | None:
        """The baseline of the highest mean test accuracy; None if all failed."""
        means = {name: self.mean(cell, name, ACCURACY)[0] for name in BASELINES}
        known = {name: mean for name, mean in means.items() if not math.isnan(mean)}
        return max(known, key=known.__getitem__) if known else None

    def difference(self, cell: Cell, other: str, metric: str) -> tuple[float, float | None]:
        """BOME minus another method: mean over the seeds and standard error of the paired differences."""
        own, others = self.values(cell, BOME, metric), self.values(cell, other, metric)
        return mean_and_error([a - b for a, b in zip(own, others, strict=True)] if own and others else [])

    def failures(self) -> list[tuple[Trial, str]]:
        """The trials that failed, and why."""
        return [(trial, scores.failure) for trial, scores in self.scores.items() if scores.failure]


def scores_of(cells: Sequence[Cell], seeds: int, folder: Path, report: Report, workers: int) -> Results:
    """The scores of every method on every cell with every seed; those that are in the folder are read.

    Args:
        cells: different ones.
        seeds: 0, 1, ... of each.
        folder: of the study.
        report: told of every trial that ends.
        workers: processes; 1 runs all in this one.
    """
    trials = [Trial(cell, seed, method) for cell in cells for seed in range(seeds) for method in METHODS]
    scores = results_of(trials, perform, folder, report, workers, _restored)
    return Results({trial: scores[trial.name] for trial in trials}, tuple(cells), seeds)


def judged(answer: Answer, drawn: Drawn) -> dict[str, float]:
    """Accuracy on the test rows, and how well the wrong labels were found."""
    from sklearn.metrics import f1_score, roc_auc_score

    return {
        ACCURACY: 100 * float(np.mean(answer.predicted == drawn.test_labels)),
        AUC: float(roc_auc_score(drawn.wrong, answer.suspicion)),
        F1: 100 * float(f1_score(drawn.wrong, answer.flagged, zero_division=0)),
    }


def perform(trial: Trial) -> Scores:
    """Run a trial with one thread; whatever is wrong with one method, the others go on."""
    drawn = draw(trial.cell, trial.seed)
    start = time.process_time()
    try:
        with one_thread():
            answer = METHODS[trial.method](drawn.rows, drawn.test_x, trial.seed)
    except StorageError:
        raise
    except Exception as error:
        return Scores(failure=" ".join(f"{type(error).__name__}: {error}".split()))
    seconds = time.process_time() - start
    return Scores({**judged(answer, drawn), SECONDS: seconds})


def _restored(stored: dict[str, Any]) -> Scores:
    return Scores(**stored)
