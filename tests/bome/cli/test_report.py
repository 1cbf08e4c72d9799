"""`bome report`: the page of whatever a verb has written."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from bome.cli.main import execute
from bome.storage.folder import Folder


def test_report_makes_the_same_page_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "x"
    assert execute(["run", "lls", "--set", "steps=5", "--quiet", "--out", str(folder)]) == 0
    page = (folder / "report.html").read_bytes()
    figures = {path.name: path.read_bytes() for path in (folder / "figures").iterdir()}
    (folder / "report.html").unlink()
    assert execute(["report", str(folder)]) == 0
    assert capsys.readouterr().out == f"report: {folder / 'report.html'}\n"
    assert (folder / "report.html").read_bytes() == page
    assert {path.name: path.read_bytes() for path in (folder / "figures").iterdir()} == figures


def test_report_shows_a_directory_of_runs_on_one_page(tmp_path: Path) -> None:
    for seed in ("0", "1"):
        assert (
            execute(["run", "quadratic", "--set", "steps=3", "--seed", seed, "--quiet", "--out", str(tmp_path / seed)])
            == 0
        )
    assert execute(["report", str(tmp_path)]) == 0
    assert (tmp_path / "report.html").read_text().count("<details>") == 2


def test_report_and_resume_make_the_page_of_a_sweep_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "x"
    assert execute(["sweep", "lls", "--set", "steps=3", "--quiet", "--out", str(folder)]) == 0
    page = (folder / "report.html").read_bytes()
    for verb in ("report", "resume"):
        (folder / "report.html").unlink()
        assert execute([verb, str(folder)]) == 0
        assert capsys.readouterr().out == f"report: {folder / 'report.html'}\n"
        assert (folder / "report.html").read_bytes() == page


@pytest.mark.parametrize("kind", ["demo", "clean", "mix"])
def test_what_has_not_ended_is_told_with_the_command_that_goes_on(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Folder(tmp_path / "x").claim(kind, {}, f"bome {kind}")
    assert execute(["report", str(tmp_path / "x")]) == 2
    said = capsys.readouterr().err
    assert said.endswith(f"that has not ended: go on with 'bome resume {tmp_path / 'x'}'\n")
    assert said.count("\n") == 1


def claimed(folder: Path, kind: str) -> Path:
    """The folder of a verb that has finished."""
    Folder(folder).claim(kind, {}, f"bome {kind}")
    Folder(folder).finish({"status": "finished"})
    return folder


def a_page(folder: Path) -> Path:
    (folder / "page.html").write_text("theirs")
    return folder / "page.html"


def documented(folder: Path, docs: Path | None = None) -> Path:
    if docs is not None:
        (docs / "theirs.md").write_text("theirs")
    return a_page(folder)


@pytest.fixture
def _others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of another package, one of which has the name of a built-in one."""
    pages = {"prices": "documented", "rooms": "a_page", "run": "a_page"}
    offers = [EntryPoint(kind, f"{__name__}:{name}", "bome.pages") for kind, name in pages.items()]
    monkeypatch.setattr("bome.runs.names.entry_points", lambda group: offers if group == "bome.pages" else [])


@pytest.mark.usefixtures("_others")
def test_another_package_makes_the_pages_of_its_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = claimed(tmp_path / "x", "prices")
    assert execute(["report", str(folder)]) == 0
    assert capsys.readouterr().out == f"report: {folder / 'page.html'}\n"
    assert execute(["report", str(folder), "--docs", str(tmp_path), "--quiet"]) == 0
    assert (tmp_path / "theirs.md").exists()


@pytest.mark.usefixtures("_others")
def test_documentation_is_written_by_pages_that_have_some(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = claimed(tmp_path / "x", "rooms")
    assert execute(["report", str(folder), "--docs", str(tmp_path)]) == 2
    assert "error: --docs is for studies" in capsys.readouterr().err
    assert execute(["report", str(tmp_path), "--docs", str(tmp_path)]) == 2
    assert "error: --docs is for studies" in capsys.readouterr().err


@pytest.mark.usefixtures("_others")
def test_a_kind_that_nobody_knows_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["report", str(claimed(tmp_path / "x", "prizes"))]) == 2
    assert "no installed package makes pages of 'prizes'" in capsys.readouterr().err.splitlines()[-1]
