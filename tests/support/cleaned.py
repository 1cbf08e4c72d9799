"""Results of the cleaning study, made up."""

from collections.abc import Callable

from bome_studies.cleaning.data import Cell
from bome_studies.cleaning.methods import METHODS
from bome_studies.cleaning.trials import Results, Scores, Trial

CELLS = tuple(Cell("mnist", 196, 100, "uniform", rate, 50) for rate in (0.2, 0.5, 0.7, 0.9))


def results_of(accuracy: Callable[[Cell, str, int], float], auc: Callable[[str], float] = lambda name: 0.9) -> Results:
    scores = {
        Trial(cell, seed, name): Scores(
            {"test_accuracy": accuracy(cell, name, seed), "auc": auc(name), "f1": 50.0, "seconds": 1.0}
        )
        for cell in CELLS
        for seed in range(3)
        for name in METHODS
    }
    return Results(scores, CELLS, 3)
