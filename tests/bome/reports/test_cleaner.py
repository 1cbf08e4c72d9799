"""The page of a cleaning: complete, self-contained, and everything a table says is text on it."""

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from bome.certificate import Certificate, Test
from bome.estimators.findings import MOST_SUSPECTS, Shown, findings, suspicious
from bome.reports import cleaner as page
from bome.storage import jsonfile
from tests.support import pages
from tests.support.browser import look_at, needs_browser
from tests.support.pages import PAYLOADS, Parsed


def check_safe(text: str) -> Parsed:
    """This page has the common style and its own."""
    return pages.check_safe(text, styles=2)


class Fake:
    """What the page needs of a cleaner."""

    def __init__(self, names: list[str], n: int = 60) -> None:
        drawn = np.random.default_rng(0)
        self.given, self.suggested = drawn.integers(0, len(names), n), drawn.integers(0, len(names), n)
        self.classes_ = np.array(names, dtype=object)
        self.sample_weight_ = drawn.random(n)
        self.choice_, self.choice_reason_ = "cleaned", f"its loss is lowest on {names[0]}"
        self.candidates_: Any = pd.DataFrame(
            {"candidate": ["cleaned", "trusted only"], "loss": [0.25, 0.5], "accuracy": [0.875, 0.75]}
        )
        self.certificate_: Certificate | None = Certificate(
            f=1, g=2, q=2e-5, kkt=3e-5, tests=(Test("q", 2e-5, 1e-4, True, f"near {names[0]}"),)
        )
        self.curves_ = {"step": [0.0, 1.0, 2.0], names[0]: [3.0, 2.0, float("nan")], "loss": [1.0, 0.5, 0.25]}
        self.noise_rate_, self.n_iter_ = 0.375, 123

    def label_issues(self) -> pd.DataFrame:
        frame = pd.DataFrame({
            "row": np.arange(len(self.given)), "given_label": self.classes_[self.given],
            "suggested_label": self.classes_[self.suggested], "weight": self.sample_weight_,
            "confidence": 0.5, "suspicion": self.sample_weight_,
        })  # fmt: skip
        return frame.sort_values("suspicion", ascending=False, ignore_index=True)


def write(path: Path, cleaner: Fake, show: Any = None, **named: str) -> Path:
    """The page of a cleaner, from what a file can hold of it."""
    stored = jsonfile.dumps(findings(cleaner, cleaner.label_issues(), show))
    return page.write(path, json.loads(stored), **named)


def png(value: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (8, 8), value).save(buffer, format="PNG")
    return buffer.getvalue()


def test_the_page_tells_everything(tmp_path: Path) -> None:
    cleaner = Fake(["cat", "dog", "owl"])
    written = write(
        tmp_path / "r.html", cleaner, lambda row: Shown(f"line {row + 2}", f"about {row}"), title="T", command="bome x"
    )
    words = check_safe(written.read_text()).words
    wrong = int((cleaner.given != cleaner.suggested).sum())
    cats = cleaner.given == 0
    for expected in (
        "T",
        "bome x",
        "38%",
        "87.5%",
        f"{wrong} of 60 rows",
        "123 steps",
        "Chosen: cleaned",
        "Its loss is lowest on cat.",
        "Stationary: near cat.",
        "0.2500",
        "cos(∇f, ∇q̂)",
        "Given and suggested labels",
        "Weights of the rows",
        "Learning curves",
        f"{(cleaner.given != cleaner.suggested)[cats].mean():.1%}",
        f"{cleaner.sample_weight_[cats].mean():.2f}",
    ):
        assert expected in words, expected
    worst = cleaner.label_issues().query("given_label != suggested_label").iloc[0]
    assert words.index(f"line {worst['row'] + 2}") < words.index(f"about {worst['row']}")


def test_pictures_and_texts_of_rows_are_shown_in_order_of_suspicion(tmp_path: Path) -> None:
    cleaner = Fake(["cat", "dog"], n=300)
    text = write(tmp_path / "r.html", cleaner, lambda row: Shown(f"line {row}", "", png(row % 256))).read_text()
    check_safe(text)
    assert text.count("data:image/png") == MOST_SUSPECTS
    order = [int(n) for n in re.findall(r'alt="line (\d+)"', text)]
    expected = suspicious(cleaner.label_issues())["row"].tolist()[:MOST_SUSPECTS]
    assert order == expected


def test_a_cleaner_alone_has_a_page_too(tmp_path: Path) -> None:
    cleaner = Fake(["a", "b"])
    cleaner.certificate_, cleaner.curves_ = None, {}
    words = check_safe(write(tmp_path / "r.html", cleaner).read_text()).words
    assert "87.5%" in words
    assert "row 0" in words or "row 1" in words
    assert "Certificate" not in words


def test_nothing_suspicious_is_said_so(tmp_path: Path) -> None:
    cleaner = Fake(["a", "b"])
    cleaner.suggested = cleaner.given
    assert "No row is suspicious" in check_safe(write(tmp_path / "r.html", cleaner).read_text()).words


def test_many_classes_fit_on_the_page(tmp_path: Path) -> None:
    words = check_safe(write(tmp_path / "r.html", Fake([f"class {i}" for i in range(200)], n=3000)).read_text()).words
    assert "170 more classes are not shown" in words


@pytest.mark.parametrize("payload", PAYLOADS)
def test_whatever_a_table_says_is_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, payload: str) -> None:
    monkeypatch.setattr(page, "drawings", lambda findings: [])  # drawn once, below
    cleaner = Fake([payload, "other"])
    cleaner.choice_ = payload
    text = write(
        tmp_path / "r.html", cleaner, lambda row: Shown(payload, payload, png(1)), title=payload, command=payload
    ).read_text()
    parsed = check_safe(text)
    assert parsed.words.count(payload) >= 5 or not payload.isprintable() or "\n" in payload


def test_the_figures_survive_every_name() -> None:
    cleaner = Fake(PAYLOADS[:28])
    made = page.drawings(findings(cleaner, cleaner.label_issues()))
    assert [drawing.name for drawing in made] == ["confusion", "weights", "curves"]
    for drawing in made:
        assert b"<script" not in drawing.svg


@needs_browser
def test_a_browser_runs_nothing_of_it_and_shows_all_pictures(tmp_path: Path) -> None:
    """A script that ran would change the title."""
    attack = "<script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">"
    written = write(
        tmp_path / "r.html", Fake([attack, "b"]), lambda row: Shown(attack, attack, png(row)), title="whole"
    )
    seen = look_at(written, tmp_path / "profile")
    assert seen.title == "whole"
    assert seen.images
    assert all(seen.images)
    assert seen.messages == []
