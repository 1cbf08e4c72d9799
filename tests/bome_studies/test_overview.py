"""`bome reproduce all`: every experiment into one folder, with a page over all of them."""

import re
from pathlib import Path

import pytest

from bome.cli.main import execute
from bome_studies.study import Claim, Findings, Preset, Report


class Fake:
    """An experiment that is over at once."""

    name = "fake"

    def __init__(self, name: str) -> None:
        self._name = name

    def carry_out(self, preset: Preset, folder: Path, report: Report) -> Findings:
        claims = (Claim("<b>one</b>", "", "", "3 of 4", False), Claim("two", "", "", "", True))
        return Findings(f"Title of {self._name}", "About it.", (), claims, ())


def test_all_experiments_have_a_page_over_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bome_studies.catalogue.EXPERIMENTS", {"a": Fake("a"), "b": Fake("b")})
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
    monkeypatch.setattr("bome_studies.catalogue.EXPERIMENTS", {"a": Fake("a")})
    monkeypatch.chdir(tmp_path)
    assert execute(["reproduce", "all", "--preset", "smoke", "--quiet"]) == 0
    index = tmp_path / "runs" / "reproduce-all-smoke" / "index.html"
    link = re.findall(r'href="([^"#]+)"', index.read_text())[0]
    assert (index.parent / link).exists()


def test_an_interrupted_report_of_all_says_how_to_go_on_with_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Stopped(Fake):
        def carry_out(self, preset: Preset, folder: Path, report: Report) -> Findings:
            raise KeyboardInterrupt

    monkeypatch.setattr("bome_studies.catalogue.EXPERIMENTS", {"a": Fake("a"), "b": Stopped("b")})
    out, docs = tmp_path / "the runs", tmp_path / "docs"
    assert execute(["reproduce", "all", "--preset", "smoke", "--out", str(out), "--docs", str(docs)]) == 130
    told = capsys.readouterr().err.replace("\n", "")
    assert f"continue with: bome reproduce all --preset smoke --out '{out}' --docs {docs}" in told
