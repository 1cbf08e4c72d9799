"""The figures of comparisons on learning tasks."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bome.reports.figures import BLUE, COLOURS, DASHES, GREY
from bome_studies.learning.comparison import Axis, Comparison, Entry

BOME_COLOUR = BLUE
LABELS: Mapping[Axis, str] = {
    "units": "gradient-equivalents",
    "seconds": "seconds (steps × time of a step)",
    "step": "outer steps",
}
QUANTITIES = {
    "test_accuracy": "test accuracy, %",
    "test_loss": "test loss",
    "f1": "F1 of the found clean samples, %",
}
MARKS = ("o", "s", "^", "v", "D", "P", "X", "*")


def curves(comparison: Comparison, quantity: str, axes_of: Sequence[Axis], lines: Mapping[str, str]) -> Figure:
    """A quantity along the runs of all methods, with reference lines."""
    figure = Figure(figsize=(5.6 * len(axes_of), 5.6), layout="constrained")
    panels = figure.subplots(1, len(axes_of), squeeze=False)[0]
    for axes, axis in zip(panels, axes_of, strict=True):
        for i, entry in enumerate(_by_name(comparison.entries)):
            x, y, error = entry.curve(quantity, axis)
            style = _style(entry.method, i)
            axes.plot(x, y, label=entry.method, **style)
            if entry.method == "bome":
                low, high = ([m + sign * e for m, e in zip(y, error, strict=True)] for sign in (-1, 1))
                axes.fill_between(x, low, high, color=style["color"], alpha=0.2, linewidth=0)
        _reference_lines(axes, comparison, quantity, lines)
        axes.set_xlabel(LABELS[axis])
        axes.set_ylabel(QUANTITIES[quantity])
        _sensible_range(axes, comparison, quantity, lines)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=9)
    return figure


def joint_and_resolved(comparison: Comparison, lines: Mapping[str, str]) -> Figure:
    """Test accuracy of the joint iterate and of the inner problem solved afresh, by method."""
    entries = [entry for entry in comparison.entries if entry.finished]
    figure = Figure(figsize=(11.2, 0.32 * len(entries) + 1.8), layout="constrained")
    axes = figure.subplots()
    for resolved, mark, colour, label in (
        (False, "o", BLUE, "joint (v, θ) at the end"),
        (True, "s", COLOURS[1], "θ solved afresh for the learned v"),
    ):
        numbers = [entry.last("test_accuracy", resolved=resolved) for entry in entries]
        axes.errorbar(
            [mean for mean, _ in numbers],
            range(len(entries)),
            xerr=[error or 0 for _, error in numbers],
            fmt=mark,
            color=colour,
            label=label,
            capsize=2,
        )
    for (name, label), dash in zip(lines.items(), (":", "-", "--", "-."), strict=False):
        axes.axvline(comparison.reference(name, "test_accuracy")[0], color=GREY, linestyle=dash, label=label)
    axes.set_yticks(range(len(entries)), [_titled(entry) for entry in entries])
    axes.invert_yaxis()
    axes.set_xlabel(QUANTITIES["test_accuracy"])
    figure.legend(loc="outside lower center", ncols=3, fontsize=9)
    return figure


def ablation(entries: Mapping[str, Entry], quantities: Sequence[str], axis: Axis) -> Figure:
    """Quantities along the runs, one curve for each value of what is varied."""
    figure = Figure(figsize=(5.6 * len(quantities), 4.6), layout="constrained")
    panels = figure.subplots(1, len(quantities), squeeze=False)[0]
    for axes, quantity in zip(panels, quantities, strict=True):
        for i, (label, entry) in enumerate(entries.items()):
            x, y, _ = entry.curve(quantity, axis)
            colour, dash = COLOURS[i % len(COLOURS)], DASHES[i // len(COLOURS) % len(DASHES)]
            axes.plot(x, y, label=label, color=colour, linestyle=dash)
        axes.set_xlabel(LABELS[axis])
        axes.set_ylabel(QUANTITIES[quantity])
        if quantity == "f1":  # no sample counts as clean at the start: this one point would flatten all curves
            later = [y for entry in entries.values() for y in entry.curve(quantity, axis)[1][1:]]
            _frame(axes, later)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9)
    return figure


def search(comparison: Comparison) -> Figure:
    """The loss on validation set 2 over the step size of v, by method and T: what the choice was made of."""
    entries = _by_name(comparison.entries)
    columns = 4
    rows = -(-len(entries) // columns)
    figure = Figure(figsize=(3.0 * columns, 2.3 * rows), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False, sharex=True).flat)
    for axes, entry in zip(panels, entries, strict=False):
        by_t: dict[int, list[tuple[float, float]]] = {}
        for outcome in entry.searched:
            values = dict(outcome.job.values)
            if outcome.status == "finished":
                by_t.setdefault(values["inner_steps"], []).append((values["outer_lr"], outcome.last["val2_loss"]))
        for i, (t, points) in enumerate(sorted(by_t.items())):
            x, y = zip(*sorted(points), strict=True)
            axes.plot(x, y, marker=MARKS[i], color=COLOURS[i], label=f"T = {t}", markersize=4)
        axes.set_xscale("log")
        axes.set_title(entry.method, fontsize=10)
        if len(by_t) > 1:
            axes.legend(fontsize=8)
    for axes in panels[len(entries) :]:
        axes.set_axis_off()
    for axes in panels[len(entries) - columns : len(entries)]:
        axes.tick_params(labelbottom=True)  # the lowest of each column
    figure.supxlabel("step size of v")
    figure.supylabel("loss on validation set 2")
    return figure


def _style(method: str, i: int) -> dict[str, Any]:
    if method == "bome":
        return {"color": BOME_COLOUR, "linewidth": 3.0, "zorder": 5}
    colours = COLOURS[1:]
    return {"color": colours[i % len(colours)], "linestyle": DASHES[i // len(colours) % len(DASHES)], "linewidth": 1.4}


def _by_name(entries: Sequence[Entry]) -> list[Entry]:
    """BOME first, then the others as they are registered: equal colours in all figures."""
    return sorted(
        (entry for entry in entries if entry.finished), key=lambda entry: (entry.method != "bome", entry.method)
    )


def _titled(entry: Entry) -> str:
    return f"{entry.method}, T = {entry.values['inner_steps']}"


def _reference_lines(axes: Axes, comparison: Comparison, quantity: str, lines: Mapping[str, str]) -> None:
    if quantity not in ("test_accuracy", "test_loss"):
        return
    for (name, label), dash in zip(lines.items(), (":", "-", "--", "-."), strict=False):
        axes.axhline(comparison.reference(name, quantity)[0], color=GREY, linestyle=dash, linewidth=1.2, label=label)


def _sensible_range(axes: Axes, comparison: Comparison, quantity: str, lines: Mapping[str, str]) -> None:
    """A method that goes astray does not flatten all others."""
    levels = [comparison.reference(name, quantity)[0] for name in lines] if quantity != "f1" else []
    ends = sorted(entry.last(quantity)[0] for entry in comparison.entries if entry.finished)
    levels += ends[len(ends) // 4 :] if quantity != "test_loss" else ends[: -(len(ends) // 4) or None]
    _frame(axes, levels)


def _frame(axes: Axes, levels: Sequence[float]) -> None:
    """Show these levels, with a margin."""
    if levels:
        margin = 0.15 * (max(levels) - min(levels)) + 1e-9
        axes.set_ylim(min(levels) - margin, max(levels) + margin)
