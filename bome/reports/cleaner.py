"""The page of a cleaning: how much is wrong, where, and how sure that is. One file that needs nothing else."""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from bome._version import __version__
from bome.errors import ProblemError
from bome.reports.figures import BLUE, COLOURS, DASHES, RED, STYLE, Drawing, as_label, render
from bome.reports.html import environment, figure
from bome.reports.tables import CERTIFICATE, number, sentence
from bome.storage.atomic import write_atomic

WIDE = "curves"
"""The name of the figure that has several panels side by side."""
FEW_CLASSES = 12
"""So many have room for numbers in the cells of the confusion."""

COLUMNS = {"candidate": "model", "error_se": "standard error of it"}
"""The names for people of columns of the table of models, where they have others."""

Findings = Mapping[str, Any]
"""What a cleaner found, as `bome.estimators.findings` lists it."""

ABOUT = (
    "Each row of the training table has a weight between 0 and 1, which says how much a model should learn from it to "
    "be right on the trusted rows. A row is suspicious if another label is more likely than the given one."
)
CONFUSION = (
    "How many rows have the label at the left and look like the label below. Rows whose label is believed are not "
    "counted; a dark cell is a frequent mistake."
)
WEIGHTS = "How many rows have which weight: rows whose label is believed, and suspicious rows."
CURVES = (
    "The losses and the gap q over the steps in which the weights were learned. The run ends when the loss on the "
    "trusted rows hardly falls any more, or when each row was used 30 times; the curves may still fall then."
)


def write(path: str | PathLike[str], findings: Findings, *, title: str = "Cleaned labels", command: str = "") -> Path:
    """Write the page of a fitted `HyperCleaner`.

    Args:
        path: of the HTML file.
        findings: of the cleaner.
        title: of the page.
        command: that repeats the cleaning.

    Returns:
        The page.
    """
    if Path(path).is_dir():
        raise ProblemError(f"{path} is a directory: name a file, such as report.html")
    write_atomic(Path(path), rendered(findings, title, command))
    return Path(path)


def rendered(findings: Findings, title: str, command: str) -> str:
    """The page."""
    suspects = [_suspect(row) for row in findings["suspects"]]
    choice, reason, certificate = findings["choice"], sentence(findings["choice_reason"]), findings["certificate"]
    return environment().get_template("cleaner.html").render(
        title=title,
        about=ABOUT,
        key=_key(findings),
        verdict=_verdict(findings),
        command=command,
        classes=_classes(findings["classes"]),
        classes_left=findings["classes_left"],
        figures=[{**figure(drawing), "wide": drawing.name == WIDE} for drawing in drawings(findings)],
        suspects=suspects,
        suspicious=f"{findings['suspicious']:,}",
        with_images=any(row["image"] for row in suspects),
        with_text=any(row["text"] for row in suspects),
        done=_done(findings),
        candidate_columns=[COLUMNS.get(name, name) for row in findings["candidates"][:1] for name in row],
        candidates=[
            {"cells": [_cell(value) for value in row.values()], "best": row["candidate"] == choice}
            for row in findings["candidates"]
        ],
        choice=choice,
        reason=reason,
        certificate=[(name, number(certificate.get(key)), meaning) for key, name, meaning in CERTIFICATE]
        if certificate
        else [],
        certificate_verdict=sentence(certificate["verdict"]) if certificate else "",
        version=__version__,
    )  # fmt: skip


# --- the figures -----------------------------------------------------------------------------------------------------


def drawings(findings: Findings) -> list[Drawing]:
    """The figures of the page."""
    with mpl.rc_context(STYLE):
        figures = [
            Drawing("confusion", "Given and suggested labels", CONFUSION, render(_confusion(findings["confusion"]))),
            Drawing("weights", "Weights of the rows", WEIGHTS, render(_weights(findings["weights"]))),
        ]
        curves = _curves(findings["curves"])
        if curves is not None:
            figures.append(Drawing("curves", "Learning curves", CURVES, render(curves)))
    return figures


def _confusion(confusion: Mapping[str, Any]) -> Figure:
    """Given against suggested labels."""
    side = 5.2
    picture = Figure(figsize=(side, side * 0.85))
    axes = picture.subplots()
    labels = [as_label(name)[:14] for name in confusion["labels"]]
    values = np.array(confusion["counts"], dtype=float).reshape(len(labels), len(labels))
    axes.imshow(np.where(values > 0, values, np.nan), cmap="Reds", vmin=0)
    axes.grid(visible=False)
    turned = 90 if max(map(len, labels), default=0) > 3 else 0
    small = 9 if len(labels) <= FEW_CLASSES else 6
    axes.set_xticks(range(len(labels)), labels, rotation=turned, fontsize=small)
    axes.set_yticks(range(len(labels)), labels, fontsize=small)
    axes.set_xlabel("suggested label")
    axes.set_ylabel("given label")
    if len(labels) <= FEW_CLASSES:
        for i, j in zip(*np.nonzero(values), strict=True):
            colour = "white" if values[i, j] > 0.6 * values.max() else "black"
            axes.text(j, i, f"{int(values[i, j])}", ha="center", va="center", fontsize=8, color=colour)
    picture.tight_layout()
    return picture


def _weights(weights: Mapping[str, Any]) -> Figure:
    """The weights of believed and of suspicious rows."""
    picture = Figure(figsize=(5.2, 4.4))
    axes = picture.subplots()
    edges = np.array(weights["edges"])
    centres = (edges[1:] + edges[:-1]) / 2
    axes.hist([centres, centres], bins=edges.tolist(), weights=[weights["believed"], weights["suspicious"]],
              stacked=True, color=[BLUE, RED], label=["label believed", "suspicious"])  # fmt: skip
    axes.set_xlabel("weight")
    axes.set_ylabel("rows")
    axes.legend(fontsize=9)
    picture.tight_layout()
    return picture


def _curves(curves: Mapping[str, Sequence[float | None]]) -> Figure | None:
    """One panel per measured quantity over the steps; None if there is none."""
    longest = max((len(values) for name, values in curves.items() if name != "step"), default=0)
    named = {name: values for name, values in curves.items() if name != "step" and len(values) == longest}
    if longest < 2:
        return None
    steps = curves["step"] if len(curves.get("step", ())) == longest else range(1, longest + 1)
    columns = min(3, len(named))
    picture = Figure(figsize=(10.4, 3.4 * -(-len(named) // columns)))
    panels = np.atleast_1d(picture.subplots(-(-len(named) // columns), columns)).ravel()
    for i, (axes, (name, values)) in enumerate(zip(panels, named.items(), strict=False)):
        finite = np.array(values, dtype=float)
        axes.plot(steps, np.where(np.isfinite(finite), finite, np.nan), DASHES[0], color=COLOURS[i % len(COLOURS)])
        axes.set_xlabel("step")
        axes.set_ylabel(as_label(name))
    for axes in panels[len(named) :]:
        axes.set_visible(False)
    picture.tight_layout()
    return picture


# --- the tables ------------------------------------------------------------------------------------------------------


def _key(findings: Findings) -> list[tuple[str, str]]:
    """The numbers to see first."""
    accuracies = [row["accuracy"] for row in findings["candidates"] if row["candidate"] == findings["choice"]]
    return [
        (f"{findings['rows']:,}", "rows"),
        (f"{findings['suspicious']:,}", "suspicious rows"),
        (f"{findings['noise_rate']:.0%}", "wrong labels, as estimated"),
        (f"{accuracies[0]:.1%}" if accuracies else "–", "accuracy on held-out trusted rows"),
    ]


def _verdict(findings: Findings) -> str:
    rows, wrong = findings["rows"], findings["suspicious"]
    return (
        f"{wrong:,} of {rows:,} rows ({wrong / max(1, rows):.0%}) look wrongly labelled. "
        f"The chosen model: {findings['choice']}. {sentence(findings['choice_reason'])}"
    )


def _classes(classes: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Per given label: rows, suspicious ones, their share, the mean weight, what they most often are."""
    return [
        (
            row["label"],
            f"{row['rows']:,}",
            f"{row['suspicious']:,}",
            f"{row['suspicious'] / row['rows']:.1%}",
            f"{row['weight']:.2f}",
            ", ".join(f"{label} ({count:,})" for label, count in row["suggested"]),
        )
        for row in classes
    ]


def _suspect(row: Mapping[str, Any]) -> dict[str, Any]:
    """A suspicious row as the page shows it."""
    return {
        **row,
        "confidence": f"{row['confidence']:.2f}",
        "weight": f"{row['weight']:.2f}",
        "image": row["image"] and f"data:image/png;base64,{row['image']}",
    }


def _done(findings: Findings) -> list[str]:
    return [
        f"{findings['steps']:,} steps of BOME, a bilevel method that needs only gradients, learned the weights of "
        f"{findings['rows']:,} rows. The outer loss is that of the trusted rows, the inner loss that of the weighted "
        "training rows. Then several models were compared on trusted rows that they had not seen, and the best one was "
        "kept. 'cleaned' is fitted to the weighted rows and the trusted rows, 'relabelled' to the most likely labels, "
        "'trusted only' to the trusted rows alone, 'all rows' to all rows with the labels as they are, and 'robust' "
        "likewise, but with a loss that gives up on labels which it cannot explain.",
        "The error of a model is the mean probability that it gives to wrong classes on trusted rows that it has not "
        "seen. Each model is made as sure of its answers as is best for these rows, so that only the order of the "
        "classes counts. With few trusted rows the differences may be chance, and wrong labels among the trusted rows "
        "themselves are not noticed.",
    ]


def _cell(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
