"""The page of a cleaning: how much is wrong, where, and how sure that is. One file that needs nothing else."""

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bome._version import __version__
from bome.certificate import Certificate
from bome.errors import ProblemError
from bome.reports.figures import BLUE, COLOURS, DASHES, RED, STYLE, Drawing, as_label, render
from bome.reports.html import environment, figure
from bome.reports.tables import CERTIFICATE, number
from bome.storage.atomic import write_atomic

WIDE = "curves"
"""The name of the figure that has several panels side by side."""
MOST_SUSPECTS = 60
MOST_CLASSES = 30
MOST_LETTERS = 600
"""Of the text of one row."""


class Cleaned(Protocol):
    """What the page needs of a fitted `HyperCleaner`."""

    classes_: Any
    sample_weight_: Any
    choice_: str
    choice_reason_: str
    candidates_: Any
    certificate_: Certificate | None
    curves_: Any
    noise_rate_: float
    n_iter_: int

    def label_issues(self) -> pd.DataFrame:
        """All rows, most suspicious first."""


@dataclass(frozen=True)
class Shown:
    """How a row is shown to people.

    Attributes:
        place: where it is, such as "line 12".
        text: what it says.
        image: a PNG of it.
    """

    place: str
    text: str = ""
    image: bytes | None = None


Rows = Callable[[int], Shown]


def write(
    path: str | PathLike[str],
    cleaner: Cleaned,
    rows: Rows | None = None,
    *,
    title: str = "Cleaned labels",
    command: str = "",
) -> Path:
    """Write the page of a fitted `HyperCleaner`.

    Args:
        path: of the HTML file.
        cleaner: fitted.
        rows: how to show a row, by its number; by default the number alone.
        title: of the page.
        command: that repeats the cleaning.

    Returns:
        The page.
    """
    if Path(path).is_dir():
        raise ProblemError(f"{path} is a directory: name a file, such as report.html")
    issues = cleaner.label_issues()
    wrong = suspicious(issues)
    shown = _suspects(wrong, rows or (lambda row: Shown(f"row {row}")))
    classes = _classes(issues)
    page = environment().get_template("clean.html").render(
        title=title,
        about=ABOUT,
        key=_key(cleaner, issues, wrong),
        verdict=_verdict(cleaner, issues, wrong),
        command=command,
        classes=classes[:MOST_CLASSES],
        classes_left=max(0, len(classes) - MOST_CLASSES),
        figures=[{**figure(drawing), "wide": drawing.name == WIDE} for drawing in drawings(cleaner, issues)],
        suspects=shown,
        suspicious=f"{len(wrong):,}",
        with_images=any(row["image"] for row in shown),
        with_text=any(row["text"] for row in shown),
        done=_done(cleaner, issues),
        candidate_columns=[str(name).replace("_", " ") for line in candidates(cleaner)[:1] for name in line],
        candidates=[
            {"cells": [_cell(value) for value in row.values()], "best": row["candidate"] == cleaner.choice_}
            for row in candidates(cleaner)
        ],
        choice=cleaner.choice_,
        reason=_sentence(cleaner.choice_reason_),
        certificate=_certificate(cleaner.certificate_),
        certificate_verdict=_sentence(cleaner.certificate_.verdict) if cleaner.certificate_ is not None else "",
        version=__version__,
    )  # fmt: skip
    write_atomic(Path(path), page)
    return Path(path)


ABOUT = (
    "Each row of the training table got a weight between 0 and 1: how much a model should learn from it so that it is "
    "right on the trusted rows. A row is suspicious where another label is likelier than the given one."
)


def suspicious(issues: pd.DataFrame) -> pd.DataFrame:
    """The rows for which another label is suggested, most suspicious first."""
    return issues[(issues["given_label"] != issues["suggested_label"]).to_numpy()]


# --- the figures -----------------------------------------------------------------------------------------------------


def drawings(cleaner: Cleaned, issues: pd.DataFrame) -> list[Drawing]:
    """The figures of the page."""
    with mpl.rc_context(STYLE):
        made = [
            Drawing("confusion", "Given and suggested labels", CONFUSION, render(_confusion(issues))),
            Drawing("weights", "Weights of the rows", WEIGHTS, render(_weights(issues))),
        ]
        curves = _curves(cleaner.curves_)
        if curves is not None:
            made.append(Drawing("curves", "Learning curves", CURVES, render(curves)))
    return made


CONFUSION = (
    "How many rows carry the label of a line and look like the label of a column. Rows on the diagonal are believed "
    "and left blank; a dark cell elsewhere is a mistake that is made often."
)
WEIGHTS = "Rows whose label is believed, and suspicious ones, by the weight they got."
CURVES = (
    "What was measured while the weights were learned, over the steps. The run ends when the loss on the trusted rows "
    "has settled, or when every row was looked at 30 times; the curves may still fall then."
)


def _confusion(issues: pd.DataFrame) -> Figure:
    """Given against suggested labels; of many classes those with most mistakes."""
    wrong = suspicious(issues)
    counts = pd.concat([wrong["given_label"], wrong["suggested_label"]]).value_counts()
    names = sorted(issues["given_label"].unique(), key=_order)
    if len(names) > MOST_CLASSES:
        names = sorted(counts.head(MOST_CLASSES).index, key=_order)
    grid = pd.crosstab(wrong["given_label"], wrong["suggested_label"]).reindex(index=names, columns=names, fill_value=0)
    side = 5.2
    picture = Figure(figsize=(side, side * 0.85))
    axes = picture.subplots()
    values = grid.to_numpy(dtype=float)
    axes.imshow(np.where(values > 0, values, np.nan), cmap="Reds", vmin=0)
    axes.grid(visible=False)
    labels = [as_label(str(name))[:14] for name in names]
    turned = 90 if max(map(len, labels), default=0) > 3 else 0
    small = 9 if len(names) <= 12 else 6
    axes.set_xticks(range(len(names)), labels, rotation=turned, fontsize=small)
    axes.set_yticks(range(len(names)), labels, fontsize=small)
    axes.set_xlabel("suggested label")
    axes.set_ylabel("given label")
    if len(names) <= 12:
        for i, j in zip(*np.nonzero(values), strict=True):
            colour = "white" if values[i, j] > 0.6 * values.max() else "black"
            axes.text(j, i, f"{int(values[i, j])}", ha="center", va="center", fontsize=8, color=colour)
    picture.tight_layout()
    return picture


def _weights(issues: pd.DataFrame) -> Figure:
    """The weights of believed and of suspicious rows."""
    picture = Figure(figsize=(5.2, 4.4))
    axes = picture.subplots()
    wrong = (issues["given_label"] != issues["suggested_label"]).to_numpy()
    weights = issues["weight"].to_numpy(dtype=float)
    edges = np.linspace(0, max(1.0, float(weights.max(initial=1.0))), 31).tolist()
    axes.hist([weights[~wrong], weights[wrong]], bins=edges, stacked=True, color=[BLUE, RED],
              label=["label believed", "suspicious"])  # fmt: skip
    axes.set_xlabel("weight")
    axes.set_ylabel("rows")
    axes.legend(fontsize=9)
    picture.tight_layout()
    return picture


def _curves(curves: Mapping[str, Sequence[float]]) -> Figure | None:
    """One panel per measured quantity over the steps; None if there is none."""
    lengths = [len(values) for name, values in curves.items() if name != "step"]
    named = {name: values for name, values in curves.items() if name != "step" and len(values) == max(lengths)}
    if not named or max(lengths) < 2:
        return None
    steps = curves["step"] if len(curves.get("step", ())) == max(lengths) else range(1, max(lengths) + 1)
    picture = Figure(figsize=(10.4, 3.4 * -(-len(named) // 3)))
    columns = min(3, len(named))
    all_axes = np.atleast_1d(picture.subplots(-(-len(named) // columns), columns)).ravel()
    for i, (axes, (name, values)) in enumerate(zip(all_axes, named.items(), strict=False)):
        finite = np.where(np.isfinite(np.asarray(values, dtype=float)), np.asarray(values, dtype=float), np.nan)
        axes.plot(steps, finite, DASHES[0], color=COLOURS[i % len(COLOURS)])
        axes.set_xlabel("step")
        axes.set_ylabel(as_label(name))
    for axes in all_axes[len(named) :]:
        axes.set_visible(False)
    picture.tight_layout()
    return picture


# --- the tables ------------------------------------------------------------------------------------------------------


def _key(cleaner: Cleaned, issues: pd.DataFrame, wrong: pd.DataFrame) -> list[tuple[str, str]]:
    """The numbers to see first."""
    return [
        (f"{len(issues):,}", "rows"),
        (f"{len(wrong):,}", "suspicious rows"),
        (f"{cleaner.noise_rate_:.0%}", "of the labels estimated wrong"),
        (_accuracy(cleaner), "right on unseen trusted rows"),
    ]


def _accuracy(cleaner: Cleaned) -> str:
    chosen = [line.get("accuracy") for line in candidates(cleaner) if line["candidate"] == cleaner.choice_]
    return f"{chosen[0]:.1%}" if chosen and chosen[0] is not None else "–"


def _verdict(cleaner: Cleaned, issues: pd.DataFrame, wrong: pd.DataFrame) -> str:
    share = len(wrong) / max(1, len(issues))
    found = f"{len(wrong):,} of {len(issues):,} rows ({share:.0%}) look wrongly labelled."
    return f"{found} The model used: {cleaner.choice_}. {_sentence(cleaner.choice_reason_)}"


def _classes(issues: pd.DataFrame) -> list[tuple[str, ...]]:
    """Per given label: rows, suspicious ones, their share, the mean weight, what they most often are."""
    wrong = (issues["given_label"] != issues["suggested_label"]).to_numpy()
    lines = []
    for name, part in issues.assign(wrong=wrong).groupby("given_label", sort=False):
        count = int(part["wrong"].sum())
        others = part.loc[part["wrong"], "suggested_label"].value_counts().head(2)
        told = ", ".join(f"{other} ({n:,})" for other, n in others.items())
        weight = float(part["weight"].mean())
        lines.append(
            (count, (str(name), f"{len(part):,}", f"{count:,}", f"{count / len(part):.1%}", f"{weight:.2f}", told))
        )
    few = len(lines) <= MOST_CLASSES
    lines.sort(key=(lambda line: _order(line[1][0])) if few else (lambda line: (False, -line[0], line[1][0])))
    return [cells for _, cells in lines]


def _suspects(wrong: pd.DataFrame, rows: Rows) -> list[dict[str, Any]]:
    """The most suspicious rows as the page shows them."""
    made = []
    for issue in wrong.head(MOST_SUSPECTS).itertuples(index=False):
        shown = rows(int(issue.row))
        text = re.sub(r"\s+", " ", shown.text).strip()
        made.append(
            {
                "place": shown.place,
                "given": str(issue.given_label),
                "suggested": str(issue.suggested_label),
                "confidence": f"{issue.confidence:.2f}",
                "weight": f"{issue.weight:.2f}",
                "text": text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…",
                "image": shown.image and f"data:image/png;base64,{base64.b64encode(shown.image).decode()}",
            }
        )
    return made


def _done(cleaner: Cleaned, issues: pd.DataFrame) -> list[str]:
    return [
        f"{cleaner.n_iter_:,} steps of BOME, a bilevel method that needs gradients only, learned the weights of "
        f"{len(issues):,} rows: the outer loss is that of the trusted rows, the inner one that of the weighted "
        "training rows. Several models were then compared on trusted rows held out for that, and the best was kept; "
        "'cleaned' is fitted to the weighted rows together with the trusted ones, 'relabelled' to likeliest labels, "
        "'robust' to all rows with a loss that gives up on labels it cannot explain.",
        "The errors below are those of held-out rows: the probability of the wrong classes, each model being made as "
        "sure of its answers as suits these rows best, so that only the order of the classes is compared. "
        "A model is only as good as the rows it was judged by: with few trusted rows the differences below are small "
        "against chance, and mistakes in the trusted rows themselves are not found.",
    ]


def candidates(cleaner: Cleaned) -> list[dict[str, Any]]:
    """The models compared, one line each; the first entry of a line is the name."""
    found = cleaner.candidates_
    if isinstance(found, pd.DataFrame):
        lines = [dict(zip(map(str, found.columns), row, strict=True)) for row in found.itertuples(index=False)]
        return [{"candidate": str(next(iter(line.values()))), **dict(list(line.items())[1:])} for line in lines]
    return [{"candidate": str(name), **values} for name, values in found.items()]


def _cell(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, (float, np.floating)) else str(value)


def _certificate(found: Certificate | None) -> list[tuple[str, str, str]]:
    values = {} if found is None else found.to_dict()
    return [(name, number(values.get(key)), meaning) for key, name, meaning in CERTIFICATE if values]


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) or not text else ".")


def _order(label: Any) -> tuple[bool, float, str]:
    """Numbers by value, before names by letters."""
    text = str(label)
    try:
        return False, float(text), text
    except ValueError:
        return True, 0.0, text
