"""The page of a mixture: the weights, how they came about, and how sure that is. One file that needs nothing else."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from bome._version import __version__
from bome.reports.figures import BLUE, COLOURS, DASHES, GREY, STYLE, Drawing, as_label, render
from bome.reports.html import environment, figure
from bome.reports.tables import number, sentence

PREFIX = "weight/"
MOST_NAMED = 8
"""Curves with a name of their own in a figure; the others are grey."""

ABOUT = (
    "How much a language model should learn from each source to do well on the target text. The weights w are learned "
    "together with a small model, whose parameters are θ: the loss on the target, f, is made small, where θ must "
    "minimise the sum of the weighted losses of the sources."
)


def drawings(history: Sequence[Mapping[str, Any]]) -> list[Drawing]:
    """The figures of the page."""
    with mpl.rc_context(STYLE):
        return [
            Drawing(
                "weights",
                "Weights of the sources",
                "Dashed: equal weights.",
                render(weights_over_steps(history)),
            ),
            Drawing(
                "losses",
                "Loss on the target",
                "f, the mean over minibatches of the target text.",
                render(_losses(history)),
            ),
        ]


def weights_over_steps(history: Sequence[Mapping[str, Any]]) -> Figure:
    """The weight of each source over the outer steps."""
    names = [key.removeprefix(PREFIX) for key in history[-1] if key.startswith(PREFIX)]
    start = {name: abs(history[-1][PREFIX + name] - 1 / len(names)) for name in names}
    shown = sorted(names, key=lambda name: -start[name])[:MOST_NAMED]
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.subplots()
    steps = [row["step"] for row in history]
    for name in names:
        values = [row[PREFIX + name] for row in history]
        if name not in shown:
            axes.plot(steps, values, color=GREY, linewidth=0.8, alpha=0.6)
    for i, name in enumerate(sorted(shown, key=lambda name: -history[-1][PREFIX + name])):
        values = [row[PREFIX + name] for row in history]
        axes.plot(
            steps, values, DASHES[i // len(COLOURS)], color=COLOURS[i % len(COLOURS)], label=as_label(name), zorder=3
        )
    axes.axhline(1 / len(names), color=GREY, linestyle=(0, (5, 3)), linewidth=1.2)
    axes.set_xlabel("outer step")
    axes.set_ylabel("weight")
    axes.set_ylim(bottom=0)
    figure.legend(loc="outside right upper", fontsize=9)
    return figure


def _losses(history: Sequence[Mapping[str, Any]]) -> Figure:
    figure = Figure(figsize=(5.2, 3.7), layout="constrained")
    axes = figure.subplots()
    rows = [row for row in history if row.get("f") is not None]
    axes.plot([row["step"] for row in rows], [row["f"] for row in rows], color=BLUE)
    axes.set_xlabel("outer step")
    axes.set_ylabel(r"loss on the target $f$")
    return figure


def rendered(summary: Mapping[str, Any], figures: Sequence[Drawing], command: str) -> str:
    """The page."""
    weights: Mapping[str, float] = summary["weights"]
    equal = 1 / len(weights)
    rows = [
        (name, f"{weight:.1%}", f"{weight / equal:.2f}", f"{summary['tokens'][name]:,}")
        for name, weight in sorted(weights.items(), key=lambda item: -item[1])
    ]
    certificate = summary["certificate"]
    return environment(Path(__file__).parent).get_template("mix.html").render(
        title="A mixture of data sources",
        about=ABOUT,
        verdict=sentence(certificate.get("verdict", "")),
        command=command,
        rows=rows,
        figures=[figure(drawing) for drawing in figures],
        results=[
            ("loss on the target, of the model that was learned with the weights", number(summary["f"])),
            ("loss on target text that was held out", number(summary["held_out_loss"])),
            ("steps", f"{summary['steps']:,}"),
            ("evaluations of f and g", ", ".join(f"{kind}: {n:,}" for kind, n in summary["evaluations"].items())),
            ("seconds", number(summary["seconds"])),
        ],
        settings=list(summary["settings"].items()),
        version=__version__,
    )  # fmt: skip
