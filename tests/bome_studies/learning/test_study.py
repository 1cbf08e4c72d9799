"""The smoke presets of both learning studies, their notes and their page."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bome.cli.main import execute
from bome.storage.folder import Folder
from bome_studies import page
from bome_studies.learning import figures as figures
from bome_studies.learning import study
from bome_studies.learning.hyperclean import HYPERCLEAN, PROTOCOLS
from bome_studies.learning.newsgroups import REGULARIZATION
from bome_studies.learning.protocol import METHODS
from bome_studies.learning.study import search_note
from tests.support.browser import look_at, needs_browser
from tests.support.comparisons import comparison as made_up

STUDIES = {each.name: each for each in (HYPERCLEAN, REGULARIZATION)}


QUICK = PROTOCOLS["quick"]


def test_the_note_on_the_search_tells_the_budgets_the_grid_and_the_seeds() -> None:
    told = search_note(replace(QUICK, search=11, budget=222, most_steps=33, seeds=(4, 6)))
    for words in (
        "T = 1, 10",
        "step sizes of v 10, 50, 100, 500, 1000",
        "11 gradient-equivalents",
        "for 222 (at most 33 outer steps)",
        "Seeds of the winner: 4; of that of BOME: 6",
    ):
        assert words in told


@pytest.mark.parametrize("name", ["hyperclean", "regularization"])
def test_the_smoke_preset_leaves_numbers_figures_and_a_page(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "hyperclean":  # drawing takes most of the time, and the other one draws the same kinds of figures
        monkeypatch.setattr("bome_studies.figures.render", lambda figure: b"<svg/>")
    folder = tmp_path / name
    command = ["reproduce", name, "--preset", "smoke", "--out", str(folder), "--quiet"]
    assert execute(command) == 0
    rows = json.loads((folder / "results.json").read_text())
    selected = {row["method"] for row in rows if row["variant"] == "selected" and row["metric"] == "test_accuracy"}
    assert selected == set(METHODS)
    resolved = {row["method"] for row in rows if row["metric"] == "test_accuracy_resolved"}
    assert resolved == set(METHODS)
    told = json.loads((folder / "findings.json").read_text())
    assert told["notes"][0] == search_note(STUDIES[name].protocols["smoke"])
    assert all(claim["holds"] is None for claim in told["claims"])  # a few steps decide nothing
    text = (folder / "report.html").read_text()
    assert text.count("<figure") == sum(len(section["figures"]) for section in told["sections"])
    before = {path: path.stat().st_mtime_ns for path in (folder / "parts").rglob("*.json")}
    assert execute(command) == 0  # nothing is run again
    assert {path: path.stat().st_mtime_ns for path in (folder / "parts").rglob("*.json")} == before


@needs_browser
def test_the_page_of_a_comparison_opens_in_a_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "compare", lambda *_: (made_up(),))
    Folder(tmp_path).claim("reproduce", {"study": HYPERCLEAN.name, "preset": "smoke"}, "")
    findings = HYPERCLEAN.run("smoke", tmp_path, lambda what, done, total: None)
    written = page.write(tmp_path, findings)
    for width in (400, 1200):
        seen = look_at(written, tmp_path / "profile", width)
        assert seen.title == "Data hyper-cleaning"
        assert len(seen.images) == sum(len(section.figures) for section in findings.sections) > 5
        assert all(seen.images)
        assert seen.messages == []
        assert seen.overflow == 0
