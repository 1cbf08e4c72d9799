"""The figures of the cleaning study."""

import math
from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bome.reports.figures import BLUE, COLOURS, DASHES, GREY, STYLE
from bome_studies.cleaning.claims import to_best
from bome_studies.cleaning.data import KINDS, Cell
from bome_studies.cleaning.methods import BOME, METHODS
from bome_studies.cleaning.trials import ACCURACY, AUC, F1, SECONDS, Results

LABELS: Mapping[str, str] = {
    ACCURACY: "test accuracy, %",
    AUC: "AUC of finding wrong labels",
    F1: "F1 of finding wrong labels, %",
    SECONDS: "seconds of the processor",
}
MARKS = ("s", "^", "v", "D", "P", "X", "*")


def by_rate(results: Results, cells: Sequence[Cell], metric: str) -> Figure:
    """A quantity by the share of noisy labels, a panel for each kind of noise, a curve for each method.

    Args:
        results: of all trials.
        cells: of one data set and one number of trusted rows.
        metric: the quantity.
    """
    kinds = [kind for kind in KINDS if any(cell.kind == kind for cell in cells)]
    figure = Figure(figsize=(3.2 * max(len(kinds), 2) + 0.6, 4.6), layout="constrained")
    panels = figure.subplots(1, len(kinds), squeeze=False, sharey=True)[0]
    for axes, kind in zip(panels, kinds, strict=True):
        own = sorted((cell for cell in cells if cell.kind == kind), key=lambda cell: cell.rate)
        _curves(axes, results, own, metric, [100 * cell.rate for cell in own])
        axes.set_title(f"{kind} noise", fontsize=11)
        axes.set_xlabel("noisy labels, %")
    panels[0].set_ylabel(LABELS[metric])
    _legend(figure, panels[0])
    return figure


def by_trusted(results: Results, cells: Sequence[Cell]) -> Figure:
    """Test accuracy by the number of trusted rows, a panel for each share of noisy labels.

    Args:
        results: of all trials.
        cells: of one data set and one kind of noise.
    """
    rates = sorted({cell.rate for cell in cells})
    figure = Figure(figsize=(3.2 * max(len(rates), 2) + 0.6, 4.6), layout="constrained")
    panels = figure.subplots(1, len(rates), squeeze=False, sharey=True)[0]
    for axes, rate in zip(panels, rates, strict=True):
        own = sorted((cell for cell in cells if cell.rate == rate), key=lambda cell: cell.trusted)
        _curves(axes, results, own, ACCURACY, [float(cell.trusted) for cell in own])
        axes.set_title(f"{100 * rate:.0f} % noise", fontsize=11)
        axes.set_xlabel("trusted rows")
        axes.set_xscale("log")
        axes.set_xticks([cell.trusted for cell in own], [f"{cell.trusted:,}" for cell in own])
        axes.minorticks_off()
    panels[0].set_ylabel(LABELS[ACCURACY])
    _legend(figure, panels[0])
    return figure


def to_best_map(results: Results) -> Figure:
    """Test accuracy minus that of the best baseline, a square for each cell."""
    lines = list(dict.fromkeys((cell.data, cell.kind, cell.trusted) for cell in results.cells))
    rates = sorted({cell.rate for cell in results.cells})
    values = np.full((len(lines), len(rates)), math.nan)
    errors = np.zeros_like(values)
    for cell in results.cells:
        place = lines.index((cell.data, cell.kind, cell.trusted)), rates.index(cell.rate)
        difference, error = to_best(results, cell)
        values[place] = -math.inf if math.isinf(difference) else difference
        errors[place] = error or 0.0
    finite = np.abs(values[np.isfinite(values)])
    limit = max(1.0, float(np.percentile(finite, 95))) if len(finite) else 1.0
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        figure = Figure(figsize=(1.25 * len(rates) + 4.2, 0.3 * len(lines) + 1.9), layout="constrained")
        axes = figure.subplots()
        shown = axes.imshow(np.clip(values, -limit, limit), cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto")
        for i, j in zip(*np.nonzero(~np.isnan(values)), strict=True):
            text = f"{values[i, j]:+.1f}" if np.isfinite(values[i, j]) else "failed"
            late = values[i, j] < -errors[i, j]
            dark = abs(values[i, j]) > 0.65 * limit
            axes.text(
                j, i, text + (" *" if late else ""), ha="center", va="center", fontsize=9,
                color="white" if dark else "black",
            )  # fmt: skip
        axes.set_xticks(range(len(rates)), [f"{100 * rate:.0f} %" for rate in rates])
        axes.set_yticks(range(len(lines)), [f"{data}, {kind}, {count:,} trusted" for data, kind, count in lines])
        axes.set_xlabel("noisy labels")
        figure.colorbar(shown, label="points above the best baseline", shrink=min(1.0, 6 / (0.3 * len(lines) + 1.9)))
    return figure


def times(results: Results) -> Figure:
    """The mean time of each method on each data set."""
    data = list(dict.fromkeys(cell.data for cell in results.cells))
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.subplots()
    for i, name in enumerate(data):
        means = [
            _mean_of([results.mean(cell, method, SECONDS)[0] for cell in results.cells if cell.data == name])
            for method in METHODS
        ]
        axes.plot(means, range(len(METHODS)), MARKS[i % len(MARKS)], color=COLOURS[i % len(COLOURS)], label=name)
    axes.set_yticks(range(len(METHODS)), list(METHODS))
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel(f"{LABELS[SECONDS]}, mean over cells and seeds")
    figure.legend(loc="outside lower center", ncols=4, fontsize=9)
    return figure


def _mean_of(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def _curves(axes: Axes, results: Results, cells: Sequence[Cell], metric: str, across: Sequence[float]) -> None:
    """One curve for each method; the band is the standard error of BOME."""
    for i, method in enumerate(METHODS):
        numbers = [results.mean(cell, method, metric) for cell in cells]
        means = [mean for mean, _ in numbers]
        if method == BOME:
            errors = [error or 0.0 for _, error in numbers]
            low, high = ([m + sign * e for m, e in zip(means, errors, strict=True)] for sign in (-1, 1))
            axes.fill_between(across, low, high, color=BLUE, alpha=0.2, linewidth=0)
            axes.plot(across, means, "o-", color=BLUE, linewidth=2.6, markersize=6, label=method, zorder=5)
        else:
            colour = (*COLOURS[1:], GREY, "black")[(i - 1) % (len(COLOURS) + 1)]
            axes.plot(
                across, means, DASHES[i % len(DASHES)], color=colour, marker=MARKS[(i - 1) % len(MARKS)],
                markersize=4.5, linewidth=1.3, label=method,
            )  # fmt: skip


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=8 if len(figure.axes) > 2 else 4, fontsize=9)
