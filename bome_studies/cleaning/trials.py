"""Trials of the cleaning benchmark: a method on a cell with a seed, judged, and stored as soon as it has ended."""

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bome.errors import StorageError
from bome.runs.choice import mean_and_error
from bome.storage.atomic import write_atomic
from bome_studies.cleaning.data import Cell, Drawn, draw
from bome_studies.cleaning.methods import BASELINES, BOME, METHODS, Answer
from bome_studies.study import Report
from bome_studies.toys.trials import PARTS

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
class Outcome:
    """How a trial went.

    Attributes:
        numbers: each of `METRICS`; empty if it failed.
        failure: what the method raised, in a line; empty if it did not.
    """

    numbers: Mapping[str, float] = field(default_factory=dict)
    failure: str = ""


@dataclass(frozen=True)
class Results:
    """The outcomes of all trials.

    Attributes:
        outcomes: by trial.
        cells: in order.
        seeds: how many of each cell.
    """

    outcomes: Mapping[Trial, Outcome]
    cells: tuple[Cell, ...]
    seeds: int

    def values(self, cell: Cell, method: str, metric: str) -> list[float]:
        """A quantity for each seed; empty if the method failed with one of them."""
        found = [self.outcomes[Trial(cell, seed, method)].numbers.get(metric) for seed in range(self.seeds)]
        return [] if any(value is None for value in found) else [float(value) for value in found if value is not None]

    def mean(self, cell: Cell, method: str, metric: str) -> tuple[float, float | None]:
        """Mean over the seeds and its standard error; NaN if the method failed."""
        return mean_and_error(self.values(cell, method, metric))

    def best_baseline(self, cell: Cell) -> str | None:
        """The baseline of the highest mean test accuracy; None if all failed."""
        means = {name: self.mean(cell, name, ACCURACY)[0] for name in BASELINES}
        known = {name: mean for name, mean in means.items() if not math.isnan(mean)}
        return max(known, key=known.__getitem__) if known else None

    def difference(self, cell: Cell, other: str, metric: str) -> tuple[float, float | None]:
        """BOME less another method: mean over the seeds and standard error of the paired differences."""
        own, others = self.values(cell, BOME, metric), self.values(cell, other, metric)
        return mean_and_error([a - b for a, b in zip(own, others, strict=True)] if own and others else [])

    def failures(self) -> list[tuple[Trial, str]]:
        """The trials that failed, and why."""
        return [(trial, outcome.failure) for trial, outcome in self.outcomes.items() if outcome.failure]


def carry_out(cells: Sequence[Cell], seeds: int, folder: Path, report: Report, workers: int) -> Results:
    """Run every method on every cell with every seed, unless its outcome is in the folder.

    Args:
        cells: different ones.
        seeds: 0, 1, ... of each.
        folder: of the benchmark.
        report: told of every trial that ends.
        workers: processes; 1 runs all in this one.
    """
    trials = [Trial(cell, seed, method) for cell in cells for seed in range(seeds) for method in METHODS]
    outcomes = {trial: found for trial in trials if (found := read(folder, trial)) is not None}
    if outcomes:
        report("found", len(outcomes), len(trials))
    missing = [trial for trial in trials if trial not in outcomes]
    for trial in _each(missing, folder, workers):
        found = read(folder, trial)
        if found is None:
            raise StorageError(f"cannot read back {_path(folder, trial)}: is the disk full?")
        outcomes[trial] = found
        report(f"{trial.cell.data} {trial.cell.title}: {trial.method}, seed {trial.seed}", len(outcomes), len(trials))
    return Results({trial: outcomes[trial] for trial in trials}, tuple(cells), seeds)


def perform(trial: Trial, folder: Path) -> None:
    """Run a trial and store its outcome; nothing is done if it is there."""
    if read(folder, trial) is None:
        outcome = _outcome(trial)
        write_atomic(_path(folder, trial), json.dumps({"trial": _spec(trial), "outcome": asdict(outcome)}) + "\n")


def read(folder: Path, trial: Trial) -> Outcome | None:
    """The stored outcome of the very same trial; None if there is none, or a damaged one."""
    try:
        found = json.loads(_path(folder, trial).read_text(encoding="utf-8"))
        outcome = Outcome(**found["outcome"])
        complete = bool(outcome.failure) or all(math.isfinite(outcome.numbers[metric]) for metric in METRICS)
        return outcome if found["trial"] == _spec(trial) and complete else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def judged(answer: Answer, drawn: Drawn) -> dict[str, float]:
    """Accuracy on the test rows, and how well the wrong labels were found."""
    from sklearn.metrics import f1_score, roc_auc_score

    return {
        ACCURACY: 100 * float(np.mean(answer.predicted == drawn.test_labels)),
        AUC: float(roc_auc_score(drawn.wrong, answer.suspicion)),
        F1: 100 * float(f1_score(drawn.wrong, answer.flagged, zero_division=0)),
    }


def _outcome(trial: Trial) -> Outcome:
    drawn = draw(trial.cell, trial.seed)
    start = time.process_time()
    try:
        answer = METHODS[trial.method](drawn.rows, drawn.test_x, trial.seed)
    except StorageError:
        raise
    except Exception as error:  # whatever is wrong with one method, the others go on
        return Outcome(failure=" ".join(f"{type(error).__name__}: {error}".split()))
    seconds = time.process_time() - start
    return Outcome({**judged(answer, drawn), SECONDS: seconds})


def _each(trials: Sequence[Trial], folder: Path, workers: int) -> Iterator[Trial]:
    """Each trial, as it ends."""
    if workers < 2 or len(trials) < 2:
        for trial in trials:
            perform(trial, folder)
            yield trial
        return
    import joblib
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    parallel = joblib.Parallel(n_jobs=workers, return_as="generator_unordered", batch_size=1)
    try:
        yield from parallel(joblib.delayed(_work)(trial, folder) for trial in trials)
    except TerminatedWorkerError as error:
        raise StorageError(
            "a worker was lost, often for want of memory: the same command goes on, with --workers 1 in half the memory"
        ) from error


def _work(trial: Trial, folder: Path) -> Trial:
    """In a worker: one thread each, since there are as many of them as processors."""
    torch.set_num_threads(1)
    perform(trial, folder)
    return trial


def _path(folder: Path, trial: Trial) -> Path:
    return folder / PARTS / f"{trial.name}.json"


def _spec(trial: Trial) -> dict[str, Any]:
    return asdict(trial)
