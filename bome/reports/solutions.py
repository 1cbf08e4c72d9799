"""The page of a task that was solved: the verdict and its tests, all solutions found, shadow prices, what was spent."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from bome._version import __version__
from bome.errors import StorageError
from bome.reports.figures import BLUE, COLOURS, GREY, STYLE, Drawing, render
from bome.reports.html import environment, figure
from bome.reports.tables import number, sentence
from bome.runs.directory import FIGURES, REPORT, read_metrics
from bome.runs.solving import SOLVE, read_assignment
from bome.storage.atomic import write_atomic
from bome.storage.folder import SUMMARY, Folder

MOST_ROWS = 20
"""Solutions in the table, the best ones."""


def write_page(folder: Path) -> Path:
    """Write the figures and the page of a solution, from its files alone.

    Raises:
        ProblemError: the work has not ended.
        StorageError: the files are damaged.
    """
    config, assignment = Folder(folder).config(SOLVE), read_assignment(folder)
    summary = Folder(folder).summary()
    if summary is None:
        raise Folder(folder).unfinished()
    try:
        return _written(folder, config.command, assignment.task, summary)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise StorageError(f"{folder / SUMMARY} is damaged: it is not the outcome of a solution") from None


def _written(folder: Path, command: str, task: str, summary: Mapping[str, Any]) -> Path:
    drawings = _drawings(read_metrics(folder), summary)
    page = environment().get_template("solution.html").render(
        title=f"{task} by solve",
        verdict=sentence(summary["certificate"]["verdict"]),
        command=command,
        results=_results(summary),
        tests=[_test(test) for test in summary["certificate"]["tests"]],
        arms=[(name, number(each["F"]), number(each["live"])) for name, each in summary.get("arms", {}).items()],
        warnings=[sentence(text) for text in summary.get("warnings", ())],
        found=[_solution(each) for each in summary.get("found", ())[:MOST_ROWS]],
        left_out=max(0, len(summary.get("found", ())) - MOST_ROWS),
        prices=[row for kind, values in summary.get("prices", {}).items() for row in _prices(kind, values)],
        figures=[figure(drawing) for drawing in drawings],
        version=__version__,
    )  # fmt: skip
    for drawing in drawings:
        write_atomic(folder / FIGURES / f"{drawing.name}.svg", drawing.svg)
    write_atomic(folder / REPORT, page)
    return folder / REPORT


def _results(summary: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Each number, its value and what it means."""
    optimum, ties = summary["optimum"] or {}, summary.get("ties") or {}
    rows = [
        (
            "F(v)",
            number(summary["f"]),
            "The outer loss at the solution, with θ solving the inner problem: f(v, θ*(v)).",
        ),
        ("optimal F", number(optimum.get("f")), "As it is known from elsewhere."),
        ("distance", number(summary["distance_to_optimum"]), "Of (v, θ) to the known solution."),
        ("gap", number(summary["q"]), "g(v, θ) above the least value of g(v, ·) that was found."),
        ("v", _entries(summary["v"]), "The solution."),
        ("θ*(v)", _entries(summary["theta"]), "The inner solution there."),
        *((name.replace("_", " "), number(value), "") for name, value in summary["observed"].items()),
        ("best F at v", number(ties.get("best")), "Over all inner solutions found at this v: what is reported."),
        (
            "worst F at v",
            number(ties.get("worst")),
            "What may happen where the inner problem has several solutions and is solved without a look at f.",
        ),
        ("runs", number(summary.get("runs")), f"From different starts. The search ended: {summary['reason']}."),
        ("arm", str(summary.get("arm", "–")), f"Which has found v. The race ended: {summary['reason']}."),
        ("live f", number(summary.get("live")), "f at the θ that this arm kept while v moved; F(v) is what counts."),
        *((key, number(value), MEANINGS.get(key, "")) for key, value in summary["tuned"].items()),
        ("seconds", number(summary["seconds"]), ""),
    ]
    return [row for row in rows if row[1] != "–"]


MEANINGS = {
    "horizon": "For how many steps θ was trained when a v was judged.",
    "reach": "ρ, how far the probe goes from θ, relative to it.",
    "sigma": "σ, the weight of g(v, θ) − g(v, θ*(v)) at the end.",
    "alpha": "α, the last inner step size.",
    "T": "The most inner steps of a descent.",
}
"""What was chosen."""


def _test(test: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    """Whether it holds, what must hold, the number found, its limit, and what that says."""
    mark = {True: "yes", False: "no"}.get(test["passed"], "not known")
    return mark, test["name"], number(test["value"]), number(test["limit"]), sentence(test["text"])


def _solution(each: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    return number(each["f"]), number(each["q"]), number(each["runs"]), _entries(each["v"]), _entries(each["theta"])


def _prices(kind: str, values: Sequence[float]) -> list[tuple[str, str, str]]:
    """One row for each constraint: its kind, its place and its price."""
    return [(kind.replace("_", " "), f"{place + 1}", number(float(value))) for place, value in enumerate(values)]


def _entries(values: Sequence[float] | None) -> str:
    return "in the checkpoint" if values is None else ", ".join(number(float(value)) for value in values)


def _drawings(rows: Sequence[Mapping[str, Any]], summary: Mapping[str, Any]) -> list[Drawing]:
    pictures = (
        ("runs", "Runs", "f at the best point of each level, one colour for each run; dashed: the solution.", _runs),
        ("gap", "Gap", "g(v, θ) above the least g found. As σ grows, it goes to 0 and f to F(v).", _gap),
        ("spent", "Evaluations", "What they were spent on.", _spent),
    )
    drawings = []
    for name, title, caption, make in pictures:
        with mpl.rc_context(STYLE):
            drawn = make(rows, summary)
            if drawn is not None:
                drawings.append(Drawing(name, title, caption, render(drawn)))
    return drawings


def _runs(rows: Sequence[Mapping[str, Any]], summary: Mapping[str, Any]) -> Figure | None:
    """f along the runs."""
    drawn = _along(rows, "f", "outer loss $f$")
    if drawn is not None:
        drawn.axes[0].axhline(summary["f"], color=GREY, linestyle=(0, (5, 3)), linewidth=1.2)
    return drawn


def _gap(rows: Sequence[Mapping[str, Any]], summary: Mapping[str, Any]) -> Figure | None:
    """q along the runs."""
    drawn = _along(rows, "q", r"gap $g(v, \theta) - g^*(v)$")
    if drawn is not None and any(isinstance(row.get("q"), float) and row["q"] > 0 for row in rows):
        drawn.axes[0].set_yscale("log", nonpositive="mask")
    return drawn


def _along(rows: Sequence[Mapping[str, Any]], column: str, label: str) -> Figure | None:
    """A curve for each run over the evaluations; None if nothing was logged."""
    runs: dict[int, list[tuple[int, float]]] = {}
    for row in rows:
        value = row.get(column)
        if isinstance(value, (int, float)) and isinstance(row.get("run"), int):
            spent = sum(n for key, n in row.items() if key.startswith("n_") and isinstance(n, int))
            runs.setdefault(row["run"], []).append((spent, float(value)))
    if not runs:
        return None
    drawn = Figure(figsize=(5.2, 3.7), layout="constrained")
    axes = drawn.subplots()
    for run, points in runs.items():
        across, up = np.array(points).T
        axes.plot(across, np.where(np.isfinite(up), up, np.nan), ".-", color=COLOURS[run % len(COLOURS)], markersize=3,
                  linewidth=1.2)  # fmt: skip
    axes.set_xlabel("evaluations")
    axes.set_ylabel(label)
    return drawn


def _spent(rows: Sequence[Mapping[str, Any]], summary: Mapping[str, Any]) -> Figure | None:
    """Evaluations by what they were for."""
    spent = {what: count for what, count in summary["spent"].items() if count}
    if not spent:
        return None
    drawn = Figure(figsize=(5.2, 3.7), layout="constrained")
    axes = drawn.subplots()
    axes.barh(list(spent), list(spent.values()), color=BLUE, height=0.6)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("evaluations")
    return drawn
