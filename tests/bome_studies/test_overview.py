"""`bome reproduce all`: every experiment into one folder, with a page over all of them."""

import re
from pathlib import Path

import pytest

from bome.cli.main import execute
from bome_studies.study import Claim, Findings, Preset, Report


class Fake:
    """A study that is over at once."""

    def __init__(self, name: str) -> None:
        self.name = name

    def carry_out(self, preset: Preset, folder: Path, report: Report, workers: int = 1) -> Findings:
        claims = (Claim("<b>one</b>", "", "", "3 of 4", False), Claim("two", "", "", "", True))
        return Findings(f"Title of {self.name}", "About it.", (), claims, ())


def _in_place_of_all(monkeypatch: pytest.MonkeyPatch, *studies: Fake) -> None:
    known = {study.name: study for study in studies}
    monkeypatch.setattr("bome_studies.catalogue.REPRODUCE", {name: name for name in known})
    monkeypatch.setattr("bome_studies.catalogue.load", known.__getitem__)


def test_all_experiments_have_a_page_over_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _in_place_of_all(monkeypatch, Fake("a"), Fake("b"))
    assert execute(["reproduce", "all", "--preset", "smoke", "--out", str(tmp_path)]) == 0
    assert "all reports:" in capsys.readouterr().out
    text = (tmp_path / "index.html").read_text()
    assert "Content-Security-Policy" in text
    assert "<script" not in text
    assert "&lt;b&gt;one&lt;/b&gt;: 3 of 4" in text
    links = re.findall(r'href="([^"#]+)"', text)
    assert links == ["a/report.html", "b/report.html"]
    assert all((tmp_path / link).exists() for link in links)


def test_without_a_folder_the_page_links_to_where_the_experiments_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _in_place_of_all(monkeypatch, Fake("a"))
    monkeypatch.chdir(tmp_path)
    assert execute(["reproduce", "all", "--preset", "smoke", "--quiet"]) == 0
    index = tmp_path / "runs" / "reproduce-all-smoke" / "index.html"
    link = re.findall(r'href="([^"#]+)"', index.read_text())[0]
    assert (index.parent / link).exists()


def test_an_interrupted_report_of_all_says_how_to_go_on_with_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Stopped(Fake):
        def carry_out(self, preset: Preset, folder: Path, report: Report, workers: int = 1) -> Findings:
            raise KeyboardInterrupt

    _in_place_of_all(monkeypatch, Fake("a"), Stopped("b"))
    out, docs = tmp_path / "the runs", tmp_path / "docs"
    assert execute(["reproduce", "all", "--preset", "smoke", "--out", str(out), "--docs", str(docs)]) == 130
    told = capsys.readouterr().err.replace("\n", "")
    assert f"continue with: bome reproduce all --preset smoke --out '{out}' --docs {docs}" in told
