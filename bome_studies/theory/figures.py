"""The figures of the theory study: measured values with standard errors, fitted slopes, bounds as dashes."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from bome.reports.figures import BLUE, COLOURS, GREY, RED
from bome_studies.theory.fits import Array, Fit

COLOUR = {"quadratic": BLUE, "wavy": RED, "sine": BLUE}
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")


class Line(NamedTuple):
    """Points with errors, and the power law fitted to them.

    Attributes:
        label: for the legend.
        colour: of the points.
        y: (points, instances).
        fit: the exponent, where one was fitted; it goes into the legend.
        mark: the shape of the points.
        filled: whether the marks are filled.
    """

    label: str
    colour: str
    y: Array
    fit: Fit | None = None
    mark: str = "o"
    filled: bool = True


class Panel(NamedTuple):
    """One pair of logarithmic axes.

    Attributes:
        across: the label of x.
        up: the label of y.
        x: where the points are.
        lines: what is shown.
        bound: the exponent of the bound and its name, drawn through the first point of the first line.
        title: above.
    """

    across: str
    up: str
    x: Array
    lines: Sequence[Line]
    bound: tuple[float, str] | None = None
    title: str = ""


def powers(panels: Sequence[Panel]) -> Figure:
    """Power laws side by side."""
    figure, all_axes = _panels(len(panels))
    for axes, panel in zip(all_axes, panels, strict=True):
        axes.set(xscale="log", yscale="log", xlabel=panel.across, ylabel=panel.up, title=panel.title)
        for line in panel.lines:
            _points(axes, panel.x, line)
        if panel.bound is not None:
            slope, label = panel.bound
            top = max(line.y[0].mean() * (panel.x[0] / panel.x.min()) ** -slope for line in panel.lines)
            _guide(axes, panel.x, 1.6 * top * (panel.x / panel.x.min()) ** slope, label)
        _legend(axes)
    return figure


def inner_decay(curves: Mapping[str, Array], bounds: Mapping[str, float]) -> Figure:
    """q(v, θ^(t)) / q(v, θ) over t on a half-logarithmic scale; a panel for each family."""
    figure, all_axes = _panels(len(curves))
    for axes, (family, values) in zip(all_axes, curves.items(), strict=True):
        t = np.arange(float(len(values)))
        shown = np.where(values > 1e-14, values, np.nan)
        axes.plot(t, shown, color=COLOUR[family], linewidth=0.9, alpha=0.6)
        axes.plot([], [], color=COLOUR[family], label="one line for each instance")
        _guide(axes, t, np.exp(-bounds[family] * t), r"bound $(1-(\alpha-L\alpha^2/2)\kappa)^t$")
        axes.set(yscale="log", ylim=(1e-14, 5), xlabel="inner step $t$", title=family)
        axes.set_ylabel(r"$q(v,\theta^{(t)})\,/\,q(v,\theta)$")
        axes.legend(fontsize=8.5, loc="center right" if family == "wavy" else "upper right")
    return figure


def inner_steps(panels: Sequence[tuple[str, Array, Sequence[Line], float, str]]) -> Figure:
    """Errors over T on a half-logarithmic scale: (label, T, lines, rate of the bound, its name) for each panel."""
    figure, all_axes = _panels(len(panels))
    for axes, (up, t, lines, rate, label) in zip(all_axes, panels, strict=True):
        for line in lines:
            _points(axes, t, line, "rate")
        top = max(line.y[0].mean() for line in lines)
        _guide(axes, t, 1.6 * top * np.exp(-rate * (t - t[0])), label)
        axes.set(yscale="log", xlabel="inner steps $T$", ylabel=up)
        axes.legend(fontsize=8.5)
    return figure


def outer_decay(
    k: Array, curves: Mapping[str, tuple[Array, float]], products: Array, rates: Mapping[str, Array], pl: float
) -> Figure:
    """q_k with its floor for some settings, and the fitted rates over ξη."""
    figure, (left, right) = _panels(2)
    for i, (label, (values, floor)) in enumerate(curves.items()):
        left.plot(k, values, color=COLOURS[i % len(COLOURS)], label=label)
        left.axhline(floor, color=COLOURS[i % len(COLOURS)], linewidth=0.8, linestyle=":")
    left.set(yscale="log", xlabel="outer step $k$", ylabel="$q_k$ (mean over instances)", title="quadratic")
    left.legend(fontsize=8.5)
    for family, values in rates.items():
        _points(right, products, Line(family, COLOUR[family], values), joined=False)
    _guide(right, products, -np.log(1 - products * pl / 4), r"bound $-\log(1-\xi\eta\kappa/4)$, quadratic")
    right.plot(products, products * pl, color=GREY, linestyle=":", linewidth=1.4, label=r"$\xi\eta\kappa$, quadratic")
    right.set(xscale="log", yscale="log", xlabel=r"$\xi\eta$", ylabel="fitted rate of decay of $q_k$")
    ticks = np.unique(products)
    right.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    right.xaxis.set_minor_locator(NullLocator())
    right.legend(fontsize=8.5)
    return figure


def gradient_error(pairs: Mapping[str, tuple[Array, Array]]) -> Figure:
    """‖∇q − ∇q̂‖ against L‖θ^(T) − θ*‖ at single steps, by T."""
    figure, (axes,) = _panels(1)
    low, high = np.inf, 0.0
    for i, (label, (bound, error)) in enumerate(pairs.items()):
        seen = (bound > 1e-10) & (error > 1e-12)
        low, high = min(low, bound[seen].min()), max(high, bound[seen].max())
        axes.plot(
            bound[seen], error[seen], ".", color=COLOURS[i % len(COLOURS)], markersize=3, alpha=0.5, rasterized=False
        )
        axes.plot([], [], "o", color=COLOURS[i % len(COLOURS)], label=label)
    _guide(axes, np.array([low, high]), np.array([low, high]), "bound")
    axes.set(xscale="log", yscale="log", xlabel=r"$L\,\|\theta^{(T)}-\theta^*\|$")
    axes.set_ylabel(r"$\|\nabla q-\nabla\hat q\|$")
    axes.legend(fontsize=8.5)
    return figure


def along(k: Array, panels: Sequence[tuple[str, Mapping[str, Array], float, str]]) -> Figure:
    """Quantities along runs with decreasing steps: the mean over instances, with a band of all of them.

    Args:
        k: the steps.
        panels: (label of y, values (steps, instances) by family, exponent of a guide, its name).
    """
    figure, all_axes = _panels(len(panels))
    for axes, (up, families, slope, label) in zip(all_axes, panels, strict=True):
        for family, values in families.items():
            axes.fill_between(k + 1, values.min(1), values.max(1), color=COLOUR[family], alpha=0.15, linewidth=0)
            axes.plot(k + 1, values.mean(1), color=COLOUR[family], label=family, linewidth=1.2)
        late = k >= k[-1] / 100
        last = next(iter(families.values()))[late].mean(1)
        anchor = last[-1] * 2
        _guide(axes, k[late] + 1, anchor * ((k[late] + 1) / (k[-1] + 1)) ** slope, label)
        axes.set(xscale="log", yscale="log", xlabel="outer step $k$", ylabel=up)
        axes.legend(fontsize=8.5)
    return figure


def by_basin(local: Array, values: Array, labels: Sequence[str]) -> Figure:
    """f at the end of each run against the best f of its basin."""
    figure, (axes,) = _panels(1)
    order = sorted(
        set(labels), key=lambda label: min(x for x, each in zip(local, labels, strict=True) if each == label)
    )
    for i, label in enumerate(order):
        mine = np.array([each == label for each in labels])
        colour = COLOURS[i % len(COLOURS)]
        axes.plot(
            local[mine], values[mine], MARKS[i % len(MARKS)], color=colour, label=f"{label}: {mine.sum()}", markersize=6
        )
    ends = np.array([local.min() * 0.8, local.max() * 1.25])
    _guide(axes, ends, ends, "the two are equal")
    axes.set(xscale="log", yscale="log", xlabel="least $f$ on the minima of the basin", ylabel="$f$ at the last step")
    axes.legend(fontsize=8, title="basin $(k_1, k_2)$: starts", title_fontsize=8, ncols=2)
    return figure


def _panels(columns: int) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(5.0 * columns if columns > 1 else 5.6, 4.0), layout="constrained")
    return figure, [*figure.subplots(1, columns, squeeze=False).flat]


def _points(axes: Axes, x: Array, line: Line, word: str = "slope", *, joined: bool = True) -> None:
    mean = line.y.mean(1)
    error = line.y.std(1, ddof=1) / np.sqrt(line.y.shape[1])
    label = line.label if line.fit is None else f"{line.label}: {word} {line.fit}"
    low = np.minimum(error, 0.95 * np.abs(mean))  # a logarithmic axis has no 0
    style: Any = {"color": line.colour, "marker": line.mark, "markersize": 5, "capsize": 3, "elinewidth": 1.2}
    style["linewidth"] = 1.3 if joined else 0
    axes.errorbar(x, mean, [low, error], label=label, markerfacecolor=line.colour if line.filled else "white", **style)


def _legend(axes: Axes) -> None:
    """Inside the axes, or below them where it would cover much."""
    if len(axes.get_lines()) and len(axes.get_legend_handles_labels()[1]) > 4:
        axes.legend(fontsize=8.5, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    else:
        axes.legend(fontsize=8.5)


def _guide(axes: Axes, x: Array, y: Array, label: str) -> None:
    axes.plot(x, y, color=GREY, linestyle="--", linewidth=1.4, label=label)
