"""The tutorials are true: their code runs, their commands and links exist."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from bome.cli.main import verbs

FOLDER = Path(__file__).parent.parent / "docs" / "tutorials"
PAGES = sorted(FOLDER.glob("*.md"))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)


def run(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, dict[str, Any]]:
    """What the code prints, and the names it leaves."""
    monkeypatch.chdir(folder)
    out, names = io.StringIO(), dict[str, Any]()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "tutorial", "exec"), names)  # noqa: S102 - our own text
    return out.getvalue(), names


def test_the_tutorials_are_there() -> None:
    assert {page.name for page in PAGES} >= {"clean.md", "regularization.md", "when.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_pictures_and_commands_exist(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert link.startswith("https://") or (FOLDER / link).exists(), link
    named = [line.split()[1] for block in blocks(page, "sh") for line in block.split("\n") if line.startswith("bome ")]
    assert set(named) <= set(verbs())


def test_the_code_of_the_cleaning_tutorial_is_better_than_all_rows_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = blocks(FOLDER / "clean.md", "python")
    printed, names = run(code, tmp_path, monkeypatch)
    assert re.fullmatch(r"\d+% of the 200 most suspicious labels are wrong; accuracy \d+%\n", printed)
    assert names["found"] > 2 * names["wrong"].mean()
    x, y, given = names["X"], names["y"], names["given"]
    plain = LogisticRegression(max_iter=3000).fit(x[:700] / 16, np.concatenate([given, y[600:700]]))
    assert names["cleaner"].score(x[700:], y[700:]) > plain.score(x[700:] / 16, y[700:])
    assert (tmp_path / "report.html").exists()


def test_the_code_of_the_regularisation_tutorial_beats_a_common_penalty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = blocks(FOLDER / "regularization.md", "python")
    found = re.search(r"([\d.]+) learned, ([\d.]+) common", run(code, tmp_path, monkeypatch)[0])
    assert found is not None
    assert float(found[1]) > float(found[2])
