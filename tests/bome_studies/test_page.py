"""The page of a study, made of its files alone."""

import json
from pathlib import Path

import pytest

from bome.cli.main import execute
from bome.errors import ProblemError, StorageError
from bome.storage.folder import Folder
from bome_studies import page
from bome_studies.study import Claim, Findings, Row, Section, Table


def _claimed(folder: Path, preset: str = "smoke") -> Path:
    Folder(folder).claim("reproduce", {"study": "toys", "preset": preset}, "")
    return folder


def _findings() -> Findings:
    claims = (Claim("a | b", "here", "c", "3 of 4", True), Claim("two", "", "", "", None))
    rows = (
        Row("toy", "bome", "v", "f", 1.5, None, 1, "smoke", "bome"),
        Row("toy", "x", "v", "f", float("nan"), 0.1, 2, "smoke", "bome"),
    )
    section = Section("Part", "About it.", (), Table(("method", "f"), (("bome", "1.5"),)))
    return Findings("Title", "About.", (section,), claims, rows, ("A note.",))


def test_what_is_written_is_read_back_and_the_end_is_marked(tmp_path: Path) -> None:
    path = page.write(_claimed(tmp_path), _findings())
    assert path == tmp_path / "report.html"
    assert page.identity(tmp_path) == ("toys", "smoke")
    again = page.read(tmp_path)
    assert again.claims == _findings().claims
    assert again.sections == _findings().sections
    assert [row.mean for row in again.rows] == [1.5, None]
    assert Folder(tmp_path).summary() == {"claims": {"hold": 1, "do not hold": 0, "open": 1}}


def test_the_documentation_has_tables_claims_and_notes(tmp_path: Path) -> None:
    page.write(_claimed(tmp_path / "run"), _findings())
    text = page.write_docs(tmp_path / "run", tmp_path / "docs").read_text()
    assert "| a \\| b | here | c | 3 of 4 | **holds** |" in text
    assert "| two |  |  |  | **open** |" in text
    assert "1 hold, 1 open." in text
    assert "- A note." in text
    assert json.loads((tmp_path / "docs" / "toys.json").read_text())[0]["mean"] == 1.5


def test_the_command_of_a_study_says_its_verb_and_options() -> None:
    assert page.command("toys", "quick", docs=Path("my docs")) == "bome reproduce toys --preset quick --docs 'my docs'"
    assert page.command("bench-clean", "paper") == "bome bench clean --preset paper"


def test_a_folder_of_another_verb_is_no_study(tmp_path: Path) -> None:
    Folder(tmp_path / "a").claim("sweep", {}, "")
    with pytest.raises(StorageError, match="does not name a study"):
        page.identity(tmp_path / "a")
    with pytest.raises(ProblemError):
        page.identity(tmp_path / "nothing")


def test_unfinished_and_damaged_folders_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _claimed(tmp_path / "a", "quick")
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
    (tmp_path / "a" / "config.json").write_text("[]")
    assert execute(["report", str(tmp_path / "a")]) == 4


def test_text_from_files_is_shown_as_text(tmp_path: Path) -> None:
    told: dict[str, object] = {"title": "<img src=x>", "about": "", "sections": [], "notes": []}
    told["claims"] = [{"text": "<b>", "place": "", "variant": "", "found": "", "holds": False}]
    _claimed(tmp_path / "b")
    (tmp_path / "b" / "findings.json").write_text(json.dumps(told))
    (tmp_path / "b" / "results.json").write_text("[]")
    text = page.write_page(tmp_path / "b").read_text()
    assert "<img src=x>" not in text
    assert "&lt;b&gt;" in text
    assert "does not hold" in text


def test_claims_are_counted() -> None:
    claims = [Claim("", "", "", "", holds) for holds in (True, True, False, None)]
    assert [text for text, _ in page.counts(claims)] == ["2 hold", "1 do not hold", "1 open"]
