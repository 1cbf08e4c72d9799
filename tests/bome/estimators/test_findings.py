"""What a fitted cleaner found, as values for a page and a file."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bome.certificate import Certificate, Test
from bome.estimators.findings import MOST_CLASSES, MOST_LETTERS, MOST_SUSPECTS, Shown, findings, suspicious


class Fake:
    """What is needed of a cleaner."""

    certificate_: Certificate | None = None
    choice_, choice_reason_, noise_rate_, n_iter_ = "cleaned", "why", 0.25, 7

    def __init__(self, given: list[Any], suggested: list[Any], weight: list[float]) -> None:
        self.sample_weight_ = np.array(weight)
        self.candidates_ = pd.DataFrame({"candidate": ["cleaned"], "error": [0.5]})
        self.curves_ = {"step": [0, 1], "loss": np.array([1.0, 0.5])}
        self.given, self.suggested = given, suggested

    def label_issues(self) -> pd.DataFrame:
        n = len(self.given)
        return pd.DataFrame({
            "row": range(n), "given_label": self.given, "suggested_label": self.suggested,
            "weight": self.sample_weight_, "confidence": np.full(n, 0.75), "suspicion": np.linspace(1, 0, n),
        })  # fmt: skip


def of(cleaner: Fake, **named: Any) -> dict[str, Any]:
    return findings(cleaner, cleaner.label_issues(), **named)


def test_findings_are_counted_by_hand() -> None:
    found = of(Fake([10, 10, 9, 9], [9, 10, 9, 10], [0.0, 1.0, 0.5, 0.1]))
    assert (found["rows"], found["suspicious"], found["steps"], found["noise_rate"]) == (4, 2, 7, 0.25)
    assert found["classes"] == [
        {"label": "9", "rows": 2, "suspicious": 1, "weight": 0.3, "suggested": [["10", 1]]},
        {"label": "10", "rows": 2, "suspicious": 1, "weight": 0.5, "suggested": [["9", 1]]},
    ]
    assert found["confusion"] == {"labels": ["9", "10"], "counts": [[0, 1], [1, 0]]}
    assert sum(found["weights"]["believed"]) == sum(found["weights"]["suspicious"]) == 2
    assert [row["place"] for row in found["suspects"]] == ["row 0", "row 3"]
    assert found["candidates"] == [{"candidate": "cleaned", "error": 0.5}]


def test_all_of_it_can_be_written_as_json() -> None:
    cleaner = Fake(["a", "b"], ["b", "b"], [0.0, 1.0])
    cleaner.certificate_ = Certificate(f=1, g=2, q=2e-5, tests=(Test("q", 2e-5, 1e-4, True, "near"),))
    found = of(cleaner, show=lambda row: Shown("line 2", "text", b"png"))
    assert json.loads(json.dumps(found)) == found
    assert found["suspects"][0]["image"] == "cG5n"


def test_many_classes_are_those_with_most_mistakes() -> None:
    given = [f"c{i}" for i in range(50)]
    found = of(Fake([*given, "c7"], [*given[:7], "c1", *given[8:], "c2"], [1.0] * 51))
    assert (len(found["classes"]), found["classes_left"]) == (MOST_CLASSES, 50 - MOST_CLASSES)
    assert (found["classes"][0]["label"], found["classes"][0]["suspicious"]) == ("c7", 2)
    assert sorted(found["confusion"]["labels"]) == ["c1", "c2", "c7"]


def test_of_many_suspicious_rows_the_first_are_shown_and_long_texts_are_cut() -> None:
    n = MOST_SUSPECTS + 5
    found = of(Fake(["a"] * n, ["b"] * n, [0.0] * n), show=lambda row: Shown(f"line {row}", "word \n" * 200))
    assert [row["place"] for row in found["suspects"]] == [f"line {i}" for i in range(MOST_SUSPECTS)]
    assert len(found["suspects"][0]["text"]) == MOST_LETTERS
    assert found["suspects"][0]["text"].startswith("word word")


@pytest.mark.parametrize(("given", "rows"), [(["a", "b"], [0]), (["b", "b"], [])])
def test_suspicious_rows_are_those_with_another_suggested_label(given: list[str], rows: list[int]) -> None:
    assert suspicious(Fake(given, ["b", "b"], [0.0, 1.0]).label_issues())["row"].tolist() == rows
