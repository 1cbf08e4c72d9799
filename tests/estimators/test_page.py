"""The page of a cleaning: complete, self-contained, and everything a table says is text on it."""

import io
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from bome.estimators import page
from bome.estimators.page import Shown
from bome.metrics import Certificate

PAYLOADS = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "<iframe src=https://example.org>",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "</title><h1>x",
    "<!-- x",
    "<style>*{display:none}</style>",
    "&lt;b&gt;",
    "$\\frac{$",
    "_hidden",
    "\x1b[31m",
    "a\nb",
    "<link rel=stylesheet href=//example.org/x.css>",
    "]]><b>",
    "<base href=//example.org>",
    "\u202egnp.exe",
    "\U0001f600",
    "<meta http-equiv=refresh content=0>",
    "</td></tr></table>",
    "<a href=javascript:x>",
    "<object data=x>",
    "\ufffe",
    "'",
    '"',
    "`",
    "<",
    ">",
    "&",
    "<?php",
    "<![CDATA[x",
    "%3Cscript%3E",
    "\\u003cscript\\u003e",
    "<math><mi xlink:href=x>",
    "<b",
    "=1+1",
]


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
            1, 2, 3e-5, 1e-5, 2e-5, 3e-5, -0.5, 0.25, None, f"near {names[0]}"
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


class Parsed(HTMLParser):
    """All elements of a page with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


def png(value: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (8, 8), value).save(buffer, format="PNG")
    return buffer.getvalue()


def check_safe(text: str) -> Parsed:
    """A page that shows what it is given as text and loads nothing."""
    parsed = Parsed(text)
    known = {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "div", "span", "table", "tr", "th",
        "td", "figure", "img", "figcaption", "b", "pre", "details", "summary", "footer",
    }  # fmt: skip
    allowed = {"lang", "charset", "http-equiv", "content", "name", "class", "scope", "src", "alt"}
    assert {tag for tag, _ in parsed.elements} <= known
    assert {name for _, attributes in parsed.elements for name in attributes} <= allowed
    sources = [attributes["src"] or "" for tag, attributes in parsed.elements if tag == "img"]
    assert all(re.fullmatch(r"data:image/(svg\+xml|png);base64,[A-Za-z0-9+/=]+", source) for source in sources)
    assert not re.search(r"url\s*\(|@import|<script|<link", text)
    policies = [a["content"] or "" for _, a in parsed.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert len(policies) == 1
    assert policies[0].startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'")
    return parsed


def test_the_page_tells_everything(tmp_path: Path) -> None:
    cleaner = Fake(["cat", "dog", "owl"])
    written = page.write(
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
        "Near cat.",
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
    text = page.write(tmp_path / "r.html", cleaner, lambda row: Shown(f"line {row}", "", png(row % 256))).read_text()
    check_safe(text)
    assert text.count("data:image/png") == page.MOST_SUSPECTS
    order = [int(n) for n in re.findall(r'alt="line (\d+)"', text)]
    expected = page.suspicious(cleaner.label_issues())["row"].tolist()[: page.MOST_SUSPECTS]
    assert order == expected


def test_a_cleaner_alone_has_a_page_too(tmp_path: Path) -> None:
    cleaner = Fake(["a", "b"])
    cleaner.certificate_, cleaner.curves_ = None, {}
    cleaner.candidates_ = {"cleaned": {"loss": 0.25, "accuracy": 0.875}}
    words = check_safe(page.write(tmp_path / "r.html", cleaner).read_text()).words
    assert "87.5%" in words
    assert "row 0" in words or "row 1" in words
    assert "Certificate" not in words


def test_nothing_suspicious_is_said_so(tmp_path: Path) -> None:
    cleaner = Fake(["a", "b"])
    cleaner.suggested = cleaner.given
    assert "No row is suspicious" in check_safe(page.write(tmp_path / "r.html", cleaner).read_text()).words


def test_many_classes_fit_on_the_page(tmp_path: Path) -> None:
    words = check_safe(
        page.write(tmp_path / "r.html", Fake([f"class {i}" for i in range(200)], n=3000)).read_text()
    ).words
    assert "170 more classes are not shown" in words


@pytest.mark.parametrize("payload", PAYLOADS)
def test_whatever_a_table_says_is_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, payload: str) -> None:
    monkeypatch.setattr(page, "drawings", lambda cleaner, issues: [])  # drawn once, below
    cleaner = Fake([payload, "other"])
    cleaner.choice_ = payload
    text = page.write(
        tmp_path / "r.html", cleaner, lambda row: Shown(payload, payload, png(1)), title=payload, command=payload
    ).read_text()
    parsed = check_safe(text)
    assert parsed.words.count(payload) >= 5 or not payload.isprintable() or "\n" in payload


def test_the_figures_survive_every_name() -> None:
    cleaner = Fake(PAYLOADS[:28])
    made = page.drawings(cleaner, cleaner.label_issues())
    assert [drawing.name for drawing in made] == ["confusion", "weights", "curves"]
    for drawing in made:
        assert b"<script" not in drawing.svg


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs a browser")
def test_a_browser_runs_nothing_of_it(tmp_path: Path) -> None:
    """A script that ran would change the title, which a browser tells in the page it has built."""
    attack = "<script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">"
    page.write(tmp_path / "r.html", Fake([attack, "b"]), lambda row: Shown(attack, attack), title="whole")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command += ["--disable-background-networking", "--dump-dom", f"file://{tmp_path / 'r.html'}"]
    built = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "<title>whole</title>" in built
    assert "<script>" not in built
