"""What the cleaning study says of `HyperCleaner`: the claims, and the rows of numbers."""

import math
from collections.abc import Iterator, Sequence

from bome.runs.choice import mean_and_error
from bome_studies.cleaning.data import Cell
from bome_studies.cleaning.methods import BOME, CLEANLAB, METHODS, TRUSTED
from bome_studies.cleaning.trials import ACCURACY, AUC, METRICS, Results
from bome_studies.study import Claim, Preset, Row

AIM = "aim of this benchmark"
MOST_BEHIND = 0.1
"""The part of the cells in which the best baseline may be ahead by more than a standard error."""
HEAVY = 0.7
"""From this share of noisy labels on, every cell counts."""
LEVEL = 0.0005
"""Areas under the curve that differ by less are level."""


def claims(results: Results) -> Iterator[Claim]:
    """Each aim, with what was found."""
    cells = results.cells
    yield _average(results)
    yield _seldom_behind(results)
    yield _beats_cleanlab(results)
    for other in (CLEANLAB, TRUSTED):
        yield _level(results, other, "all cells", cells)
    mnist = [cell for cell in cells if cell.data == "mnist" and cell.rate == 0.5]
    for other in (CLEANLAB, TRUSTED):
        yield _level(results, other, "MNIST, 50 % noise", mnist)


def behind(results: Results) -> list[Cell]:
    """The cells in which the best baseline is ahead by more than a standard error of the paired difference."""
    return [cell for cell in results.cells if _is_behind(*to_best(results, cell))]


def to_best(results: Results, cell: Cell) -> tuple[float, float | None]:
    """Test accuracy minus that of the best baseline of the cell, in points, with its standard error.

    Minus infinity if the method failed and a baseline did not, NaN if no baseline ended.
    """
    best = results.best_baseline(cell)
    if best is None:
        return math.nan, None
    if not results.values(cell, BOME, ACCURACY):
        return -math.inf, None
    return results.difference(cell, best, ACCURACY)


def _is_behind(difference: float, error: float | None) -> bool:
    return difference < -(error or 0.0)


def _average(results: Results) -> Claim:
    means = [mean for cell in results.cells if not math.isnan(mean := to_best(results, cell)[0])]
    ended = [mean for mean in means if math.isfinite(mean)]
    mean, error = mean_and_error(ended)
    failed = f"; failed in {len(means) - len(ended)} cells" if len(ended) < len(means) else ""
    return Claim(
        "On average over the cells the test accuracy is not below the best baseline of each cell",
        AIM,
        f"{len(means)} cells",
        f"{mean:+.2f} points{'' if error is None else f' ± {error:.2f}'}{failed}",
        mean >= 0 and not failed if means else None,
    )


def _seldom_behind(results: Results) -> Claim:
    late = behind(results)
    names = "; ".join(f"{cell.data} {cell.title}" for cell in late[:5])
    more = f" and {len(late) - 5} more, see the notes" if len(late) > 5 else ""
    return Claim(
        "In at most 10 % of the cells the best baseline is ahead by more than one standard error",
        AIM,
        f"{len(results.cells)} cells",
        f"{len(late)} of {len(results.cells)} cells" + (f": {names}{more}" if late else ""),
        len(late) <= MOST_BEHIND * len(results.cells) if results.cells else None,
    )


def _beats_cleanlab(results: Results) -> Claim:
    heavy = [cell for cell in results.cells if cell.rate >= HEAVY and results.values(cell, CLEANLAB, ACCURACY)]
    differences = {cell: results.difference(cell, CLEANLAB, ACCURACY)[0] for cell in heavy}
    lost = [cell for cell, difference in differences.items() if not difference > 0]
    names = ": " + "; ".join(f"{cell.data} {cell.title}" for cell in lost[:5]) if lost else ""
    least = min(differences.values(), default=math.nan)
    return Claim(
        "With 70 % noise or more the test accuracy is above that of cleanlab in every cell",
        AIM,
        f"{len(heavy)} cells",
        f"above in {len(heavy) - len(lost)} of {len(heavy)}, least difference {least:+.2f} points{names}",
        not lost if heavy else None,
    )


def _level(results: Results, other: str, where: str, cells: Sequence[Cell]) -> Claim:
    pairs = [
        (results.mean(cell, BOME, AUC)[0], results.mean(cell, other, AUC)[0])
        for cell in cells
        if results.values(cell, BOME, AUC) and results.values(cell, other, AUC)
    ]
    own, others = (mean_and_error(column)[0] for column in (zip(*pairs, strict=True) if pairs else ((), ())))
    name = "cleanlab" if other == CLEANLAB else "the model of the trusted rows alone"
    return Claim(
        f"Wrong labels are found at least as well as by {name} (mean AUC, level within {LEVEL:g})",
        AIM,
        f"{where} ({len(pairs)})",
        f"{own:.4f} and {others:.4f}" if pairs else "no such cell",
        own >= others - LEVEL if pairs else None,
    )


def rows_of(results: Results, preset: Preset, command: str) -> Iterator[Row]:
    """Every quantity of every method in every cell."""
    for cell in results.cells:
        for method in METHODS:
            for metric in METRICS:
                mean, error = results.mean(cell, method, metric)
                if not math.isnan(mean):
                    yield Row(cell.data, method, cell.title, metric, mean, error, results.seeds, preset, command)


def remarks(results: Results) -> Iterator[str]:
    """Every cell in which the best baseline is ahead, and every trial that failed."""
    for cell in behind(results):
        difference, error = to_best(results, cell)
        words = "failed" if math.isinf(difference) else f"{difference:+.2f} ± {error or 0:.2f} points"
        yield f"Behind the best baseline ({results.best_baseline(cell)}): {cell.data} {cell.title}, {words}."
    for trial, reason in results.failures():
        yield f"Failed: {trial.method} on {trial.cell.data} {trial.cell.title}, seed {trial.seed}: {reason[:200]}"
