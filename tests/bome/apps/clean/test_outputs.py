"""What a cleaning leaves in its folder: safe tables, and a page that can be made again."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bome.apps.clean.inputs import Request, read
from bome.apps.clean.outputs import FILES, clean_into, default_place, harmless, page, write_table
from bome.errors import ProblemError, StorageError
from bome.estimators import HyperCleaner
from bome.storage import memo
from bome.tables.encoder import Encoder
from tests.support.tables import noisy


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small finished cleaning; never changed in place."""
    place = tmp_path_factory.mktemp("cleaned")
    for name, n, share, seed in (("train", 200, 0.3, 0), ("trusted", 40, 0, 1)):
        noisy(n, share, seed)[0].to_csv(place / f"{name}.csv", index=False)
    request = Request(place / "train.csv", place / "trusted.csv", "y")
    summary = clean_into(place / "out", request, read(request), lambda stage, done, total: None)
    assert summary["status"] == "finished"
    assert clean_into(place / "out", request, read(request), lambda stage, done, total: None) == {
        **summary,
        "status": "finished before",
    }
    return place / "out"


@pytest.fixture
def folder(cleaned: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(cleaned, tmp_path / "out"))


def test_the_page_is_made_again_from_the_stored_files_alone(folder: Path) -> None:
    before = (folder / "report.html").read_text()
    (folder / "report.html").unlink()
    for name in ("weights.csv", "issues.csv", "model.safetensors"):
        (folder / name).unlink()
    assert page(folder) == folder / "report.html"
    assert (folder / "report.html").read_text() == before


@pytest.mark.parametrize(
    "change", [{"classes": None}, {"rows": "many"}, {"suspects": [{}]}, {"weights": {"edges": []}}]
)
def test_damaged_findings_are_told(folder: Path, change: dict[str, object]) -> None:
    path = folder / "findings.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(StorageError, match=r"findings\.json is damaged"):
        page(folder)


def test_what_was_removed_is_made_again(cleaned: Path) -> None:
    place = cleaned.parent
    request = Request(place / "train.csv", place / "trusted.csv", "y")
    copy = Path(shutil.copytree(cleaned, place / "copy"))
    (copy / "weights.csv").unlink()
    summary = clean_into(copy, request, read(request), lambda stage, done, total: None)
    assert summary["status"] == "finished"
    assert all((copy / name).is_file() for name in FILES)
    assert (copy / "weights.csv").read_bytes() == (cleaned / "weights.csv").read_bytes()


def test_a_matrix_is_digested_once_scaled_once_and_its_issues_are_listed_once(
    cleaned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are two matrices: of all rows and of the trusted ones."""
    calls: list[str] = []

    def count(owner: Any, name: str, label: str, counts: Callable[..., bool] = lambda *given, **named: True) -> None:
        real = getattr(owner, name)

        def counted(*given: Any, **named: Any) -> Any:
            if counts(*given, **named):
                calls.append(label)
            return real(*given, **named)

        monkeypatch.setattr(owner, name, counted)

    count(memo, "_parts", "digest of a matrix", lambda value: getattr(value, "ndim", 0) == 2)
    count(Encoder, "fit", "scale")
    count(Encoder, "transform", "features")
    count(HyperCleaner, "label_issues", "issues")
    place = cleaned.parent
    request = Request(place / "train.csv", place / "trusted.csv", "y")
    clean_into(tmp_path / "out", request, read(request), lambda stage, done, total: None)
    assert Counter(calls) == {"digest of a matrix": 2, "scale": 1, "features": 2, "issues": 1}


def test_a_folder_of_something_else_is_refused(cleaned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = cleaned.parent
    request = Request(place / "train.csv", place / "trusted.csv", "y", seed=1)
    inputs = read(request)
    with pytest.raises(ProblemError, match="holds another cleaning, with other inputs or settings: choose another"):
        clean_into(cleaned, request, inputs, lambda stage, done, total: None)
    monkeypatch.chdir(tmp_path)
    assert default_place(inputs) == Path("runs/clean-train")


def test_a_table_keeps_its_numbers_and_holds_no_formula(tmp_path: Path) -> None:
    write_table(tmp_path / "t.csv", pd.DataFrame({"=a": ["=1+1", "x"], "b": [-1.5, 2.0]}))
    assert (tmp_path / "t.csv").read_text() == "'=a,b\n'=1+1,-1.5\nx,2\n"


@pytest.mark.parametrize(
    "cell", ["=1+1", "+cmd", "-x", "@SUM(A1)", "\tx", "\rx", "\n=x", "-1+1", "--1", "-", "-.", "-1.2.3"]
)
def test_cells_that_a_spreadsheet_would_compute_become_text(cell: str) -> None:
    assert harmless(cell) == f"'{cell}"


@pytest.mark.parametrize("cell", ["", "plain", "a=b", "-1", "+2.5e-3", "-.5", "7", "'=x", " =x"])
def test_other_cells_and_numbers_stay_as_they_are(cell: str) -> None:
    assert harmless(cell) == cell
