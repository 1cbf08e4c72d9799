"""`bome report`: the page of whatever a verb has written."""

from pathlib import Path

import pytest

from bome.cli.main import execute


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
