"""What a fitted cleaner found, as plain values: for its page, and for the file from which the page is made again."""

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd

from bome.certificate import Certificate

MOST_SUSPECTS = 60
MOST_CLASSES = 30
MOST_LETTERS = 600
"""Of the text of one row."""
BINS = 30
"""Of the weights."""

Findings = dict[str, Any]
"""Values that JSON has."""


class Cleaned(Protocol):
    """What is needed of a fitted `HyperCleaner`."""

    sample_weight_: Any
    choice_: str
    choice_reason_: str
    candidates_: pd.DataFrame
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


Show = Callable[[int], Shown]


def findings(cleaner: Cleaned, issues: pd.DataFrame, show: Show | None = None) -> Findings:
    """Everything that the page of a cleaner tells.

    Args:
        cleaner: fitted.
        issues: what its `label_issues()` gives.
        show: how to show a row, by its number; by default the number alone.
    """
    wrong, classes = suspicious(issues), _classes(issues)
    certificate = cleaner.certificate_
    return {
        "rows": len(issues),
        "suspicious": len(wrong),
        "noise_rate": float(cleaner.noise_rate_),
        "choice": cleaner.choice_,
        "choice_reason": cleaner.choice_reason_,
        "candidates": cleaner.candidates_.to_dict("records"),
        "certificate": None if certificate is None else certificate.to_dict(),
        "steps": int(cleaner.n_iter_),
        "curves": {str(name): [float(value) for value in values] for name, values in cleaner.curves_.items()},
        "classes": classes[:MOST_CLASSES],
        "classes_left": max(0, len(classes) - MOST_CLASSES),
        "confusion": _confusion(issues, wrong),
        "weights": _weights(issues),
        "suspects": [_suspect(issue, show) for issue in wrong.head(MOST_SUSPECTS).itertuples(index=False)],
    }


def suspicious(issues: pd.DataFrame) -> pd.DataFrame:
    """The rows for which another label is suggested, most suspicious first."""
    return issues[_differs(issues)]


def _differs(issues: pd.DataFrame) -> Any:
    return (issues["given_label"] != issues["suggested_label"]).to_numpy()


def _classes(issues: pd.DataFrame) -> list[dict[str, Any]]:
    """Per given label: rows, suspicious ones, the mean weight, and the two labels that are most often suggested.

    Many classes are sorted by the number of suspicious rows.
    """
    classes = [
        {
            "label": str(name),
            "rows": len(part),
            "suspicious": int(part["wrong"].sum()),
            "weight": float(part["weight"].mean()),
            "suggested": [
                [str(other), int(count)]
                for other, count in part.loc[part["wrong"], "suggested_label"].value_counts().head(2).items()
            ],
        }
        for name, part in issues.assign(wrong=_differs(issues)).groupby("given_label", sort=False)
    ]
    if len(classes) > MOST_CLASSES:
        return sorted(classes, key=lambda row: (-row["suspicious"], row["label"]))
    return sorted(classes, key=lambda row: _order(row["label"]))


def _confusion(issues: pd.DataFrame, wrong: pd.DataFrame) -> dict[str, Any]:
    """How often which label is suggested for which given one; of many classes those with most mistakes."""
    names = sorted(issues["given_label"].unique(), key=_order)
    if len(names) > MOST_CLASSES:
        counts = pd.concat([wrong["given_label"], wrong["suggested_label"]]).value_counts()
        names = sorted(counts.head(MOST_CLASSES).index, key=_order)
    grid = pd.crosstab(wrong["given_label"], wrong["suggested_label"]).reindex(index=names, columns=names, fill_value=0)
    return {"labels": [str(name) for name in names], "counts": grid.to_numpy(dtype=int).tolist()}


def _weights(issues: pd.DataFrame) -> dict[str, Any]:
    """How many rows have which weight, of those whose label is believed and of the suspicious ones."""
    wrong, weights = _differs(issues), issues["weight"].to_numpy(dtype=float)
    edges = np.linspace(0, max(1.0, float(weights.max(initial=1.0))), BINS + 1)
    believed, doubted = (np.histogram(weights[which], edges)[0].tolist() for which in (~wrong, wrong))
    return {"edges": edges.tolist(), "believed": believed, "suspicious": doubted}


def _suspect(issue: Any, show: Show | None) -> dict[str, Any]:
    shown = Shown(f"row {issue.row}") if show is None else show(int(issue.row))
    text = re.sub(r"\s+", " ", shown.text).strip()
    return {
        "place": shown.place,
        "given": str(issue.given_label),
        "suggested": str(issue.suggested_label),
        "confidence": float(issue.confidence),
        "weight": float(issue.weight),
        "text": text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…",
        "image": shown.image and base64.b64encode(shown.image).decode(),
    }


def _order(label: Any) -> tuple[bool, float, str]:
    """Numbers by value, before names by letters."""
    text = str(label)
    try:
        return False, float(text), text
    except ValueError:
        return True, 0.0, text
