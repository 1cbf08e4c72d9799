"""The figures of the toy study, drawn from traces alone."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from bome.reports.figures import (
    BLUE,
    COLOURS,
    DASHES,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    convex,
)
from bome.reports.scenes import SCENES
from bome_studies.toys.claims import radius
from bome_studies.toys.trials import Trace

LABELS = {
    "bome": "BOME",
    "bsg1": "BSG-1",
    "bvfsm": "BVFSM",
    "penalty": "Penalty",
    "ogda": "Optimistic GD",
    "gda": "GDA",
}
"""The methods as the paper calls them."""

TITLES = {"coreset": "coreset", "minimax": "minimax", "lls": "LLS"}
COLOUR = {"bome": BLUE, "bsg1": GREEN, "bvfsm": ORANGE, "penalty": RED, "ogda": PURPLE, "gda": GREY}
DASH = {"bome": "-", "bsg1": "--", "bvfsm": "-.", "penalty": ":", "ogda": (0, (6, 1)), "gda": (0, (1, 1))}

FRAME = 80.0
"""The largest half-width of a panel of paths; what goes further leaves it."""

Axis = Literal["steps", "seconds", "units"]
AXIS: dict[Axis, str] = {
    "steps": "outer steps",
    "seconds": "CPU seconds",
    "units": "gradient-equivalents",
}

Paths = Mapping[str, Mapping[str, Trace]]
"""Traces by label, then by start."""

Curves = Mapping[str, Trace]
"""Traces by label."""

Value = Callable[[Trace], Sequence[float]]


def coreset_paths(paths: Paths, variant: str) -> Figure:
    """θ, and θ^(T), over the convex hull: a panel for each method."""
    figure, panels = _panels(1, len(paths), (3.3, 3.5), share=True)
    for axes, (method, traces) in zip(panels, paths.items(), strict=True):
        _hull(axes, variant)
        for i, trace in enumerate(traces.values()):
            first = i == 0
            style: Any = {"color": SKY, "linewidth": 1.1, "zorder": 3}
            axes.plot(*_plane(trace, "ahead"), "--", **style, label=r"$\theta^{(T)}$" if first else None)
            axes.plot(*_plane(trace, "theta"), color=COLOUR[method], label=r"$\theta$" if first else None, zorder=4)
            ring: Any = {"color": "white", "markeredgecolor": "black", "markersize": 7, "zorder": 5}
            axes.plot(*trace.theta[0], "o", **ring, label="start" if first else None)
            axes.plot(*trace.theta[-1], "o", color="#00004d", markersize=6, label="end" if first else None, zorder=7)
        axes.set_title(LABELS[method])
        axes.set_xlabel(r"$\theta_1$")
    panels[0].set_ylabel(r"$\theta_2$")
    _legend_below(figure, panels)
    return figure


def losses(curves: Curves, across: Sequence[Axis], f_star: float, linear_below: float | None = None) -> Figure:
    """F, and the gap q̂, of all methods: a column for each axis.

    With `linear_below` the axis of f is logarithmic in both directions beyond that value.
    """
    figure, panels = _panels(2, len(across), (5.2, 2.9))
    for column, axis in enumerate(across):
        top, bottom = panels[column], panels[len(across) + column]
        for method, trace in curves.items():
            line: Any = {"color": COLOUR[method], "linestyle": DASH[method], "label": LABELS[method]}
            top.plot(_across(trace, axis), _finite(trace.f), **line)
            bottom.plot(_across(trace, axis), _positive(trace.q, 1e-14), **line)
        top.axhline(f_star, color=GREY, linewidth=1, linestyle=(0, (5, 3)))
        bottom.set_yscale("log")
        if linear_below is not None:
            top.set_yscale("symlog", linthresh=linear_below)
            ticks = [10.0**k * linear_below for k in (1, 2, 3)]
            top.set_yticks([*(-x for x in reversed(ticks)), 0.0, *ticks])
            top.yaxis.set_major_formatter("{x:g}")
            top.set_ylim(-2 * ticks[-1], 2 * ticks[-1])  # what diverges leaves the panel
        top.set_ylabel(r"outer loss $f$")
        bottom.set_ylabel(r"gap $\hat q$")
        for axes in (top, bottom):
            axes.set_xlabel(AXIS[axis])
            if axis != "steps":
                axes.set_xscale("log")
    _legend_below(figure, panels)
    return figure


def ablation_paths(groups: Sequence[tuple[str, Curves]], variant: str, distance_label: str) -> Figure:
    """For each group of settings of BOME: the paths over the hull, and the distance to the optimum."""
    figure, panels = _panels(1, 2 * len(groups), (3.6, 3.4))
    for i, (title, curves) in enumerate(groups):
        plane, decay = panels[2 * i], panels[2 * i + 1]
        _hull(plane, variant)
        for j, (label, trace) in enumerate(curves.items()):
            line: Any = {"color": COLOURS[j], "linestyle": DASHES[j], "label": label}
            plane.plot(*_plane(trace, "theta"), **line, zorder=4)
            plane.plot(*trace.theta[-1], "o", color=COLOURS[j], markersize=5, zorder=6)
            decay.plot(trace.steps, trace.distance, **line)
        plane.set_title(title)
        plane.set_xlabel(r"$\theta_1$")
        plane.set_ylabel(r"$\theta_2$")
        decay.set_yscale("log")
        decay.set_ylim(1e-2, None)
        decay.set_title(title)
        decay.set_xlabel(AXIS["steps"])
        decay.set_ylabel(distance_label)
        decay.legend(fontsize=9)
    return figure


def minimax_paths(curves: Curves, bound: float) -> Figure:
    """(v, θ) of each method in a panel of its own."""
    columns = 3
    figure, panels = _panels(math.ceil(len(curves) / columns), columns, (3.5, 3.1))
    for axes, (method, trace) in zip(panels, curves.items(), strict=False):
        v, theta = _finite(trace.column("v", 0)), _finite(trace.column("theta", 0))
        axes.plot(v, theta, color=COLOUR[method], linewidth=1.4, zorder=3)
        axes.plot(v[:1], theta[:1], "o", color="white", markeredgecolor="black", markersize=7, label="start", zorder=5)
        axes.plot(v[-1:], theta[-1:], "o", color="#00004d", markersize=6, label="end", zorder=6)
        axes.plot(0, 0, "*", color=ORANGE, markeredgecolor="black", markersize=14, label="saddle point", zorder=4)
        reach = 1.08 * min(FRAME, max(bound, np.nanmax(np.abs(v)), np.nanmax(np.abs(theta))))
        axes.set_xlim(-reach, reach)
        axes.set_ylim(-reach, reach)
        end = f"ends at $v$ = {trace.v[-1][0]:.3g}, $\\theta$ = {trace.theta[-1][0]:.3g}"
        axes.set_title(f"{LABELS[method]}, {trace.steps[-1]:,} steps\n{end}", fontsize=11)
        axes.set_xlabel("$v$")
        axes.set_ylabel(r"$\theta$")
    for axes in panels[len(curves) :]:
        axes.set_visible(False)
    _legend_below(figure, panels)
    return figure


def saddle_curves(groups: Sequence[tuple[str, Curves]], scaled: Mapping[str, float] | None = None) -> Figure:
    """‖(v, θ)‖ over the steps: a panel for each group; steps times the step size if `scaled`."""
    figure, panels = _panels(1, len(groups), (4.8, 3.3))
    for axes, (title, curves) in zip(panels, groups, strict=True):
        for j, (label, trace) in enumerate(curves.items()):
            factor = 1.0 if scaled is None else scaled[label]
            known = label in COLOUR
            line: Any = {
                "color": COLOUR[label] if known else COLOURS[j % len(COLOURS)],
                "linestyle": DASH[label] if known else DASHES[j % len(DASHES)],
                "label": LABELS.get(label, label),
            }
            axes.plot(factor * np.asarray(trace.steps), _positive(radius(trace), 1e-14), **line)
        axes.set_yscale("log")
        axes.set_title(title)
        axes.set_xlabel(AXIS["steps"] if scaled is None else r"$\xi\,\cdot$ outer steps")
        axes.set_ylabel(r"$\|(v, \theta)\|$")
        axes.legend(fontsize=9)
    return figure


def step_sizes(ends: Mapping[str, Mapping[float, float]], curves: Curves, scaled: Mapping[str, float]) -> Figure:
    """BOME with several step sizes, and the end points of all methods against the step size."""
    figure, (left, right) = _panels(1, 2, (4.8, 3.4))
    for j, (label, trace) in enumerate(curves.items()):
        along = scaled[label] * np.asarray(trace.steps)
        left.plot(along, _positive(radius(trace), 1e-14), DASHES[j % 4], color=COLOURS[j], label=label)
    left.set_yscale("log")
    left.set_title("BOME")
    left.set_xlabel(r"$\xi\,\cdot$ outer steps")
    left.set_ylabel(r"$\|(v, \theta)\|$")
    left.legend(fontsize=9)
    for method, by_size in ends.items():
        style: Any = {"color": COLOUR[method], "linestyle": DASH[method], "label": LABELS[method]}
        right.plot([*by_size], _positive([*by_size.values()], 1e-14), marker="o", **style)
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_title("at the end")
    right.set_xlabel(r"step sizes $\xi = \alpha$")
    right.set_ylabel(r"$\|(v, \theta)\|$")
    right.legend(fontsize=9)
    return figure


def lls_panels(curves: Curves, axis: Axis, g_star: float) -> Figure:
    """The four panels of the paper: |f − f*|, |g − g*|, ‖θ − θ*‖, |v − v*|."""
    values: tuple[tuple[str, Value], ...] = (
        ("$|f - f^*|$", lambda trace: np.abs(trace.f).tolist()),
        ("$|g - g^*|$", lambda trace: np.abs(np.asarray(trace.g) - g_star).tolist()),
        (r"$\|\theta - \theta^*\|$", lambda trace: np.linalg.norm(np.asarray(trace.theta) - 1, axis=1).tolist()),
        ("$|v - v^*|$", lambda trace: np.abs(np.asarray(trace.column("v", 0)) - 1).tolist()),
    )
    figure, panels = _panels(1, 4, (3.4, 3.1))
    for axes, (label, value) in zip(panels, values, strict=True):
        for method, trace in curves.items():
            line: Any = {"color": COLOUR[method], "linestyle": DASH[method], "label": LABELS[method]}
            axes.plot(_across(trace, axis), _positive(value(trace), 1e-16), **line)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(AXIS[axis])
        axes.set_title(label)
    _legend_below(figure, panels)
    return figure


def lls_distances(groups: Sequence[tuple[str, Curves]]) -> Figure:
    """The distance to the solution: a panel for each form of the problem."""
    figure, panels = _panels(1, len(groups), (3.9, 3.1), share=True)
    for axes, (title, curves) in zip(panels, groups, strict=True):
        for method, trace in curves.items():
            line: Any = {"color": COLOUR[method], "linestyle": DASH[method], "label": LABELS[method]}
            away = np.hypot(np.linalg.norm(np.asarray(trace.theta) - 1, axis=1), np.asarray(trace.column("v", 0)) - 1)
            axes.plot(_across(trace, "units"), _positive(away.tolist(), 1e-16), **line)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_title(title)
        axes.set_xlabel(AXIS["units"])
    panels[0].set_ylabel(r"distance to $v = 1$, $\theta = (1, 1)$")
    _legend_below(figure, panels)
    return figure


def end_points(
    ends: Mapping[str, Mapping[tuple[float, float], Sequence[float]]], names: Mapping[str, tuple[str, str]]
) -> Figure:
    """Where BVFSM and Penalty end on the coreset problem, for each pair of coefficients."""
    figure, panels = _panels(1, len(ends), (4.9, 4.0), share=True)
    for axes, (method, by_pair) in zip(panels, ends.items(), strict=True):
        _hull(axes, "code")
        firsts, seconds = (sorted({pair[i] for pair in by_pair}) for i in (0, 1))
        for (a, b), point in by_pair.items():
            marker = "o^sDv"[seconds.index(b)]
            axes.plot(*point, marker, color=COLOURS[firsts.index(a)], markersize=8, markeredgecolor="black", zorder=6)
        for i, a in enumerate(firsts):
            axes.plot([], [], "o", color=COLOURS[i], label=f"{names[method][0]} = {a:g}")
        for i, b in enumerate(seconds):
            axes.plot([], [], "o^sDv"[i], color="white", markeredgecolor="black", label=f"{names[method][1]} = {b:g}")
        axes.set_title(LABELS[method])
        axes.set_xlabel(r"$\theta_1$")
        handles, labels = axes.get_legend_handles_labels()
        kept = [(h, text) for h, text in zip(handles, labels, strict=True) if "=" in text]
        axes.legend(*zip(*kept, strict=True), fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=3)
    panels[0].set_ylabel(r"$\theta_2$")
    return figure


def grid_tables(
    tables: Mapping[str, Mapping[str, Mapping[tuple[float, float], float]]], names: Mapping[str, tuple[str, str]]
) -> Figure:
    """The distance from the optimum at the end, by method, task and pair of coefficients."""
    columns = len(next(iter(tables.values())))
    figure, panels = _panels(len(tables), columns, (3.5, 2.8))
    for row, (method, by_task) in enumerate(tables.items()):
        for column, (task, cells) in enumerate(by_task.items()):
            axes = panels[row * columns + column]
            firsts, seconds = (sorted({pair[i] for pair in cells}) for i in (0, 1))
            grid = np.array([[cells[a, b] for b in seconds] for a in firsts])
            shown = np.clip(np.nan_to_num(grid, nan=1e2, posinf=1e2), 1e-4, 1e2)
            axes.imshow(shown, cmap="cividis_r", norm=LogNorm(1e-4, 1e2), aspect="auto")
            for (i, j), value in np.ndenumerate(grid):
                dark = shown[i, j] > 0.3
                text = f"{value:.2g}" if math.isfinite(value) else "diverged"
                axes.text(j, i, text, ha="center", va="center", color="white" if dark else "black", fontsize=10)
            axes.set_xticks(range(len(seconds)), [f"{b:g}" for b in seconds])
            axes.set_yticks(range(len(firsts)), [f"{a:g}" for a in firsts])
            axes.grid(visible=False)
            axes.set_title(f"{LABELS[method]}, {TITLES[task]}")
            axes.set_xlabel(names[method][1])
            axes.set_ylabel(names[method][0])
    return figure


def _panels(rows: int, columns: int, size: tuple[float, float], *, share: bool = False) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(columns * size[0], rows * size[1]), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=share, sharey=share)
    return figure, [*grid.flat]


def _hull(axes: Axes, variant: str) -> None:
    scene = SCENES["coreset", variant]
    axes.fill(*zip(*convex(scene.hull), strict=True), color=SKY, alpha=0.18, linewidth=0, zorder=1)
    axes.plot(*zip(*scene.hull, strict=True), "s", color=GREY, markersize=5, zorder=2)
    if scene.target is not None:
        axes.plot(*scene.target, "X", color="black", markersize=8, label="goal $x_0$", zorder=2)
    if scene.optimum is not None:
        star: Any = {"color": ORANGE, "markeredgecolor": "black", "markersize": 14}
        axes.plot(*scene.optimum, "*", **star, label="optimum", zorder=6)


def _plane(trace: Trace, name: Literal["theta", "ahead"]) -> tuple[Any, Any]:
    return _finite(trace.column(name, 0)), _finite(trace.column(name, 1))


def _across(trace: Trace, axis: Axis) -> Any:
    """The values of an axis; on a logarithmic one the start has no place."""
    values = np.asarray(getattr(trace, axis), dtype=float)
    return values if axis == "steps" else np.where(values > 0, values, np.nan)


def _finite(values: Iterable[float]) -> Any:
    """The values, with NaN in place of what is too large to draw."""
    array = np.asarray([*values], dtype=float)
    return np.where(np.abs(array) < 1e12, array, np.nan)


def _positive(values: Iterable[float], floor: float) -> Any:
    """The values for a logarithmic axis: 0 is shown as the floor, NaN as nothing."""
    array = _finite(values)
    return np.where(array > floor, array, np.where(np.isnan(array), np.nan, floor))


def _legend_below(figure: Figure, panels: Sequence[Axes]) -> None:
    """One legend for all panels."""
    entries: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    figure.legend(entries.values(), entries.keys(), fontsize=10, loc="outside lower center", ncols=min(7, len(entries)))
