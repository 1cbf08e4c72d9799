"""The page of a solution: complete, made from its files alone, safe."""

import json
import shutil
from pathlib import Path

import pytest

from bome.cli.main import execute
from bome.errors import ProblemError, StorageError
from bome.reports import write_solution
from tests.support.browser import look_at, needs_browser
from tests.support.pages import check_safe


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small solution; its files are never changed in place."""
    folder = tmp_path_factory.mktemp("solution") / "x"
    assert execute(["solve", "bolib-bard1991ex1", "--budget", "900", "--quiet", "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def solved(finished: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(finished, tmp_path / "x"))


def test_the_page_has_the_verdict_its_tests_the_solutions_and_the_prices(solved: Path) -> None:
    words = check_safe(write_solution(solved).read_text()).words
    summary = json.loads((solved / "summary.json").read_text())
    for test in summary["certificate"]["tests"]:
        assert test["name"] in words
    assert summary["certificate"]["verdict"][1:] in words
    for each in summary["found"]:
        assert f"{each['f']:.4g}" in words
    for values in summary["prices"].values():
        assert all(f"{value:.4g}" in words for value in values)
    assert json.loads((solved / "config.json").read_text())["command"] in words


def test_the_page_is_made_again_from_the_files(solved: Path) -> None:
    before = (solved / "report.html").read_bytes()
    (solved / "report.html").unlink()
    assert execute(["report", str(solved), "--quiet"]) == 0
    assert (solved / "report.html").read_bytes() == before


def test_what_has_not_ended_has_no_page(solved: Path) -> None:
    (solved / "summary.json").unlink()
    with pytest.raises(ProblemError, match="holds a solution that has not ended: go on with 'bome resume"):
        write_solution(solved)


@pytest.mark.parametrize("spoil", [{"found": 3}, {"certificate": {}}, {"prices": {"inner_constraints": ["x"]}}])
def test_a_damaged_summary_is_told(solved: Path, spoil: dict[str, object]) -> None:
    summary = json.loads((solved / "summary.json").read_text())
    (solved / "summary.json").write_text(json.dumps({**summary, **spoil}))
    with pytest.raises(StorageError, match="is damaged: it is not the outcome of a solution"):
        write_solution(solved)


def test_poisoned_texts_stay_text(solved: Path) -> None:
    summary = json.loads((solved / "summary.json").read_text())
    summary["reason"] = "<script>alert(1)</script>"
    (solved / "summary.json").write_text(json.dumps(summary))
    assert "<script>alert(1)</script>" in check_safe(write_solution(solved).read_text()).words


@needs_browser
def test_the_page_opens_in_a_browser(solved: Path, tmp_path: Path) -> None:
    seen = look_at(write_solution(solved), tmp_path / "profile")
    assert seen.title == "bolib-bard1991ex1 by solve"
    assert seen.images
    assert all(seen.images)
    assert seen.messages == []
    assert seen.overflow <= 0


def test_the_page_of_a_race_tells_what_each_v_was_worth(tmp_path: Path) -> None:
    words = ["solve", "hyperclean-digits", "--budget", "600", "--quiet", "--out", str(tmp_path / "race")]
    assert execute(words) == 0
    page = check_safe(write_solution(tmp_path / "race").read_text()).words
    summary = json.loads((tmp_path / "race" / "summary.json").read_text())
    assert "What v is worth" in page
    for each in summary["arms"].values():
        assert f"{each['F']:.4g}" in page
    for text in summary["warnings"]:
        assert text[1:] in page
