"""The tutorials are true: their code runs, their commands and links exist."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from bome.cli.main import VERBS

FOLDER = Path(__file__).parent.parent / "docs" / "tutorials"
PAGES = sorted(FOLDER.glob("*.md"))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)


def printed(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(folder)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "tutorial", "exec"), {})  # noqa: S102 - our own text
    return out.getvalue()


def test_the_tutorials_are_there() -> None:
    assert {page.name for page in PAGES} >= {"clean.md", "regularization.md", "when.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_pictures_and_commands_exist(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert link.startswith("https://") or (FOLDER / link).exists(), link
    named = [line.split()[1] for block in blocks(page, "sh") for line in block.split("\n") if line.startswith("bome ")]
    assert set(named) <= {verb.__name__ for verb in VERBS}


def test_the_code_of_the_cleaning_tutorial_finds_wrong_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = blocks(FOLDER / "clean.md", "python")
    found = re.fullmatch(
        r"(\d+)% of the 200 most suspicious .* accuracy (\d+)%\n", printed(code, tmp_path, monkeypatch)
    )
    assert found is not None
    assert int(found[1]) >= 90
    assert int(found[2]) >= 88
    assert (tmp_path / "report.html").exists()


def test_the_code_of_the_regularisation_tutorial_beats_a_common_penalty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = blocks(FOLDER / "regularization.md", "python")
    found = re.search(r"([\d.]+) learned, ([\d.]+) common", printed(code, tmp_path, monkeypatch))
    assert found is not None
    assert float(found[1]) > float(found[2])
