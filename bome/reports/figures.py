"""The figures of a report: one function each, drawn without a display."""

import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bome.reports.runs import Group
from bome.reports.scenes import Scene, scene_of

# Okabe and Ito's palette, which colour-blind people can tell apart.
BLUE, ORANGE, GREEN, PURPLE, SKY, RED, GREY = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#6b6b6b",
)  # fmt: skip
COLOURS = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
DASHES = ("-", "--", "-.", ":")

STYLE: Any = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 11,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.hashsalt": "bome",  # equal figures become equal files
}

MOST_POINTS = 1000
"""More than a page can show; longer curves are thinned."""


@dataclass(frozen=True)
class Drawing:
    """A figure ready for a page.

    Attributes:
        name: for its file.
        title: for people.
        caption: what to see in it.
        svg: the picture.
    """

    name: str
    title: str
    caption: str
    svg: bytes


def draw(group: Group) -> list[Drawing]:
    """All figures that the logged quantities allow."""
    drawings = []
    for make in FIGURES:
        with mpl.rc_context(STYLE):
            figure = make(group)
            if figure is not None:
                name = make.__name__
                title = name.replace("_", " ").capitalize()
                drawings.append(Drawing(name, title, _caption(group, name), render(figure)))
    return drawings


def path(group: Group) -> Figure | None:
    """The path of the iterates in a plane, with the landmarks of the problem."""
    scene = _scene(group)
    if scene is None:
        return None
    figure, axes = _axes(*scene.names)
    _landmarks(axes, scene)
    for i, (run, label) in enumerate(zip(group.runs, group.labels(), strict=True)):
        x, y = _thin(*run.path(scene.across, scene.up))
        axes.plot(
            x, y, color=COLOURS[i % len(COLOURS)], label=as_label(label) if len(group.runs) > 1 else "path", zorder=3
        )
        axes.plot(x[:1], y[:1], "o", color=COLOURS[i % len(COLOURS)], zorder=4)
    if scene.optimum is not None:
        axes.plot(*scene.optimum, "*", color=ORANGE, markersize=17, markeredgecolor="black", label="solution", zorder=5)
    _frame(axes, scene, group)
    _legend_below(figure, axes)
    return figure


def outer_loss(group: Group) -> Figure | None:
    """f over the steps, with the optimal value."""
    optimum = (group.first.summary.get("optimum") or {}).get("f")
    return _curves(group, "f", r"outer loss $f$", level=optimum if isinstance(optimum, (int, float)) else None)


def gap(group: Group) -> Figure | None:
    """q̂ over the steps."""
    return _curves(group, "q", r"gap $\hat q$", logarithmic=True)


def multiplier(group: Group) -> Figure | None:
    """λ over the steps."""
    return _curves(group, "lam", r"multiplier $\lambda$")


def distance(group: Group) -> Figure | None:
    """The distance to the known solution over the steps."""
    return _curves(group, "distance_to_optimum", "distance to the solution", logarithmic=True)


def stationarity(group: Group) -> Figure | None:
    """The estimate of 𝒦 over the steps."""
    return _curves(group, "kkt", r"stationarity $\mathcal{K}$", logarithmic=True)


def accuracy(group: Group) -> Figure | None:
    """The test accuracy over the steps, of runs on one task."""
    if any("matrix" in run.summary for run in group.runs):
        return None
    return _curves(group, "test_accuracy", "test accuracy, %")


def accuracy_matrix(group: Group) -> Figure | None:
    """The accuracy on each task after each task, of runs on a stream of tasks."""
    matrices = {
        label: np.array([[np.nan if a is None else a for a in row] for row in run.summary["matrix"]], dtype=float)
        for run, label in zip(group.runs, group.labels(), strict=True)
        if run.summary.get("matrix")
    }
    return heat_maps(matrices) if matrices else None


def heat_maps(matrices: Mapping[str, NDArray[np.float64]]) -> Figure:
    """Accuracies as heat maps with one scale of colours: after which task, and on which."""
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        figure = Figure(figsize=(4.4 * len(matrices) + 0.8, 4.4), layout="constrained")
        panels = figure.subplots(1, len(matrices), squeeze=False)[0]
        low = min(float(np.nanmin(a)) for a in matrices.values())
        for axes, (title, a) in zip(panels, matrices.items(), strict=True):
            image = axes.imshow(a, vmin=low, vmax=100, cmap="viridis")
            if len(matrices) > 1:
                axes.set_title(as_label(title), fontsize=11)
            axes.set_xlabel("accuracy on task")
            axes.set_ylabel("after task")
            for set_ticks, count in ((axes.set_xticks, a.shape[1]), (axes.set_yticks, a.shape[0])):
                places = range(0, count, max(1, count // 5))
                set_ticks(places, [str(p + 1) for p in places])
        figure.colorbar(image, ax=list(panels), label="test accuracy, %", shrink=0.85)
    return figure


class Band(NamedTuple):
    """A curve and how sure it is.

    Attributes:
        steps: where it is known.
        mean: its height.
        error: by how much it may be wrong, up and down.
    """

    steps: Sequence[float]
    mean: Sequence[float]
    error: Sequence[float]


def bands(curves: Mapping[str, Band], label: str, *, logarithmic: bool = False) -> Figure:
    """Curves over the outer steps, each with its name and what lies within its error."""
    figure, axes = _axes("outer step", label)
    for i, (name, band) in enumerate(curves.items()):
        steps, mean = _thin(band.steps, band.mean)
        _, error = _thin(band.steps, band.error)
        colour, dashes = COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]
        axes.plot(steps, np.where(mean > 0, mean, np.nan) if logarithmic else mean, dashes, color=colour,
                  label=as_label(name))  # fmt: skip
        axes.fill_between(steps, mean - error, mean + error, color=colour, alpha=0.15, linewidth=0)
    if logarithmic and any(max(band.mean) > 0 for band in curves.values()):
        axes.set_yscale("log", nonpositive="clip")
    axes.legend(fontsize=9)
    return figure


_CAPTIONS = {
    "accuracy": "On test samples, which no choice was made with.",
    "accuracy_matrix": "Row: after which task; column: on which task. A column that fades downwards is forgetting.",
    "outer_loss": "f, to be made small; dashed: its value at the solution. It may be lower while the gap is not 0.",
    "gap": "q̂: by how much T inner steps can still decrease g. It goes to 0 as θ solves the inner problem.",
    "distance": "How far the iterate is from the known solution.",
    "multiplier": "λ: how hard the step pushes towards the inner solution; 0 where f needs no push.",
    "stationarity": "The estimate of 𝒦, which is 0 where the optimality conditions hold.",
}

FIGURES: tuple[Callable[[Group], Figure | None], ...] = (
    path, accuracy, accuracy_matrix, outer_loss, gap, distance, multiplier, stationarity,
)  # fmt: skip


def _caption(group: Group, name: str) -> str:
    scene = _scene(group) if name == "path" else None
    return _CAPTIONS[name] if scene is None else scene.caption


def _scene(group: Group) -> Scene | None:
    columns = {key for run in group.runs for row in run.rows[:1] for key in row}
    return scene_of(group.first.task, group.first.variant, columns)


def _landmarks(axes: Axes, scene: Scene) -> None:
    if scene.hull:
        corners = convex(scene.hull)
        axes.fill(*zip(*corners, strict=True), color=SKY, alpha=0.2, linewidth=0, zorder=1)
        axes.plot(*zip(*scene.hull, strict=True), "s", color=GREY, label="data points", zorder=2)
    if scene.target is not None:
        axes.plot(*scene.target, "X", color="black", markersize=9, label="target of $f$", zorder=2)
    for (x1, y1), (x2, y2) in scene.valleys:
        axes.axline((x1, y1), (x2, y2), color=GREY, linestyle="--", linewidth=1, zorder=1)


def _legend_below(figure: Figure, axes: Axes) -> None:
    """A legend that hides nothing, in lines of three."""
    lines = -(-len(axes.get_legend_handles_labels()[0]) // 3)
    figure.subplots_adjust(bottom=0.16 + 0.065 * lines)
    figure.legend(fontsize=9, loc="lower center", ncols=3, borderaxespad=0.1)


def _frame(axes: Axes, scene: Scene, group: Group) -> None:
    """Show the path and the landmarks; lines without end do not count."""
    points = [point for run in group.runs for point in zip(*_thin(*run.path(scene.across, scene.up)), strict=True)]
    points += [point for point in (*scene.hull, scene.target, scene.optimum) if point is not None]
    low, high = np.nanmin(points, axis=0), np.nanmax(points, axis=0)
    margin = 0.06 * (high - low) + 1e-9
    axes.set_xlim(low[0] - margin[0], high[0] + margin[0])
    axes.set_ylim(low[1] - margin[1], high[1] + margin[1])


def _curves(
    group: Group, column: str, label: str, *, logarithmic: bool = False, level: float | None = None
) -> Figure | None:
    """One curve per run; None if nothing was logged."""
    series = [_thin(*run.series(column)) for run in group.runs]
    if not any(len(steps) for steps, _ in series):
        return None
    figure, axes = _axes("outer step", label)
    for i, ((steps, values), name) in enumerate(zip(series, group.labels(), strict=True)):
        shown = np.where(values > 0, values, np.nan) if logarithmic else values
        axes.plot(steps, shown, DASHES[i % len(DASHES)], color=COLOURS[i % len(COLOURS)], label=as_label(name))
    if level is not None:
        axes.axhline(level, color=GREY, linestyle=(0, (5, 3)), linewidth=1.2)
    if logarithmic and any((values > 0).any() for _, values in series):
        axes.set_yscale("log")
    if len(group.runs) > 1:
        axes.legend(fontsize=9)
    return figure


def _axes(across: str, up: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(5.2, 3.7))
    axes: Axes = figure.subplots()
    # Margins by hand: matplotlib's own layouts draw everything twice.
    figure.subplots_adjust(left=0.17, right=0.97, top=0.97, bottom=0.15)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    return figure, axes


def _thin(x: Sequence[float], y: Sequence[float]) -> tuple[Any, Any]:
    """At most about `MOST_POINTS` of the points, always with the last; NaN in place of infinity."""
    across, up = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    every = max(1, len(across) // MOST_POINTS)
    keep = (np.arange(len(across)) - len(across) + 1) % every == 0
    return across[keep], np.where(np.isfinite(up), up, np.nan)[keep]


def convex(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The corners of the convex hull in order (Andrew's monotone chain)."""

    def half(ordered: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        chain: list[tuple[float, float]] = []
        for p in ordered:
            while len(chain) > 1 and _turn(chain[-2], chain[-1], p) <= 0:
                chain.pop()
            chain.append(p)
        return chain[:-1]

    ordered = sorted(points)
    return half(ordered) + half(ordered[::-1])


def _turn(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def as_label(text: str) -> str:
    """A label that is no formula, whatever it contains, and is never hidden by a leading underscore."""
    kept = re.sub(r"[^\x20-\x7e\u00a0-\u024f\u0370-\u03ff]", "?", text)[:40]
    return kept.replace("$", r"\$").replace("_", " ")


def render(figure: Figure) -> bytes:
    """The figure as SVG."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a name in a script that the font lacks
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()
