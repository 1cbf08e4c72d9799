"""`bome reproduce` and the page of an experiment."""

import json
import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from bome.cli.main import execute
from bome_studies import page
from bome_studies.study import Claim


@pytest.fixture
def _plain_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of the time."""
    monkeypatch.setattr("bome_studies.toys.figures.render", lambda figure: b"<svg/>")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("reproduce") / "toys"
    assert execute(["reproduce", "toys", "--preset", "smoke", "--out", str(made), "--quiet"]) == 0
    return made


def test_an_experiment_leaves_numbers_claims_figures_and_a_page(folder: Path) -> None:
    rows = json.loads((folder / "results.json").read_text())
    keys = {"task", "method", "variant", "metric", "mean", "se", "seeds", "preset", "command"}
    assert all(row.keys() == keys for row in rows)
    assert {row["task"] for row in rows} == {"coreset", "minimax", "lls"}
    assert {row["preset"] for row in rows} == {"smoke"}
    told = json.loads((folder / "findings.json").read_text())
    assert all(claim["holds"] is None for claim in told["claims"])  # a few steps decide nothing
    names = [figure["name"] for section in told["sections"] for figure in section["figures"]]
    assert sorted(names) == sorted(path.stem for path in (folder / "figures").glob("*.svg"))


def test_the_page_needs_nothing_else_and_runs_nothing(folder: Path) -> None:
    text = (folder / "report.html").read_text()
    assert "Content-Security-Policy" in text
    assert "<script" not in text
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", text)
    told = json.loads((folder / "findings.json").read_text())
    assert text.count("<figure") == sum(len(section["figures"]) for section in told["sections"])
    assert "bome reproduce toys --preset smoke" in text
    assert "cannot be said" in text
    for anchor in re.findall(r'href="#([^"]+)"', text):
        assert f'id="{anchor}"' in text


def test_the_page_is_made_again_without_computing(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (folder / "report.html").read_text()
    (folder / "report.html").unlink()
    monkeypatch.setattr("bome_studies.toys.trials.perform", None)
    assert execute(["report", str(folder)]) == 0
    assert "report: " in capsys.readouterr().out
    assert (folder / "report.html").read_text() == before


@pytest.mark.usefixtures("_plain_figures")
def test_a_second_run_reads_the_finished_parts_and_prints_80_columns(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("bome_studies.toys.trials.perform", None)
    arguments = ["reproduce", "toys", "--preset", "smoke", "--out", str(folder)]
    assert execute([*arguments, "--docs", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert all(cell_len(line) <= 80 for line in printed.splitlines() if not line.startswith("report: "))
    assert "cannot be said" in printed
    text = (tmp_path / "toys.md").read_text()
    assert json.loads((tmp_path / "toys.json").read_text()) == json.loads((folder / "results.json").read_text())
    linked = re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)
    assert linked
    assert all((tmp_path / name).exists() for name in linked)


@pytest.mark.usefixtures("_plain_figures")
def test_json_has_the_claims_and_rows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["reproduce", "toys", "--preset", "smoke", "--out", str(folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["study"] == "toys"
    assert told["claims"]
    assert told["rows"]
    assert told["report"].endswith("report.html")


def test_mistakes_become_one_line(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    cases = (
        (["reproduce", "toy"], "unknown study 'toy'; known: toys"),
        (["reproduce", "toys", "--preset", "quick", "--out", str(folder)], "holds another experiment or preset"),
        (["reproduce", "toys", "--preset", "smoke", "--out", str(tmp_path / "other")], "choose another --out"),
        (["reproduce", "toys", "--preset", "smoke", "--out", str(tmp_path / "other" / "file")], "is a file"),
        (["reproduce", "toys", "--preset", "slow"], "slow"),
    )
    for arguments, message in cases:
        assert execute(arguments) == 2
        told = capsys.readouterr().err
        assert told.startswith("error: ")
        assert message in told
    assert (tmp_path / "other" / "file").read_text() == "mine"


def test_unfinished_and_damaged_folders_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page.prepare(tmp_path / "a", "toys", "quick")
    assert execute(["report", str(tmp_path / "a")]) == 2
    assert "unfinished" in capsys.readouterr().err
    (tmp_path / "a" / "findings.json").write_text("{")
    (tmp_path / "a" / "results.json").write_text("[]")
    assert execute(["report", str(tmp_path / "a")]) == 4
    (tmp_path / "a" / "findings.json").write_text(
        json.dumps(
            {
                "title": "", "about": "", "claims": [], "notes": [],
                "sections": [{"title": "", "about": "", "figures": [{"name": "../x", "title": "", "caption": ""}]}],
            }
        )
    )  # fmt: skip
    assert execute(["report", str(tmp_path / "a")]) == 4
    (tmp_path / "a" / "experiment.json").write_text("[]")
    assert execute(["report", str(tmp_path / "a")]) == 4


def test_text_from_files_is_shown_as_text(folder: Path, tmp_path: Path) -> None:
    told = json.loads((folder / "findings.json").read_text())
    told["title"], told["sections"] = "<img src=x>", []
    told["claims"] = [{"text": "<b>", "place": "", "variant": "", "found": "", "holds": False}]
    page.prepare(tmp_path / "b", "toys", "smoke")
    (tmp_path / "b" / "findings.json").write_text(json.dumps(told))
    (tmp_path / "b" / "results.json").write_text("[]")
    text = page.write_page(tmp_path / "b").read_text()
    assert "<img src=x>" not in text
    assert "&lt;b&gt;" in text
    assert "does not hold" in text


def test_claims_are_counted() -> None:
    claims = [Claim("", "", "", "", holds) for holds in (True, True, False, None)]
    assert [text for text, _ in page.counts(claims)] == ["2 hold", "1 do not hold", "1 cannot be said"]
