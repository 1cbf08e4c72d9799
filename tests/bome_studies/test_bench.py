"""`bome bench`."""

import json
import re
from pathlib import Path

import pytest

from bome.cli.main import execute
from bome_studies.cleaning import trials
from bome_studies.cleaning.methods import METHODS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bench") / "clean"
    assert execute(["bench", "clean", "--preset", "smoke", "--out", str(made), "--quiet"]) == 0
    return made


@pytest.fixture
def _nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "perform", None)


def test_every_method_is_judged_on_every_cell(folder: Path) -> None:
    rows = json.loads((folder / "results.json").read_text())
    assert {row["method"] for row in rows} == set(METHODS)
    assert {row["metric"] for row in rows} == {"test_accuracy", "auc", "f1", "seconds"}
    assert len(rows) == 2 * len(METHODS) * 4  # none failed
    assert {row["seeds"] for row in rows} == {2}
    assert {row["command"] for row in rows} == {"bome bench clean --preset smoke"}
    assert len(list((folder / "parts").rglob("*.json"))) == 2 * 2 * len(METHODS)


def test_a_benchmark_leaves_aims_figures_and_a_page(folder: Path) -> None:
    told = json.loads((folder / "findings.json").read_text())
    assert len(told["claims"]) == 7
    assert all(claim["holds"] is None for claim in told["claims"])  # two seeds of tiny cells decide nothing
    names = [figure["name"] for section in told["sections"] for figure in section["figures"]]
    assert {"to-best", "times", "digits-test_accuracy", "digits-auc", "digits-f1"} == set(names)
    text = (folder / "report.html").read_text()
    assert "bome bench clean --preset smoke" in text
    assert "Claims of the paper" not in text
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", text)


@pytest.mark.usefixtures("_nothing_runs")
def test_a_second_run_reads_what_is_there_and_writes_the_documentation(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["bench", "clean", "--preset", "smoke", "--out", str(folder), "--docs", str(tmp_path), "--json"]
    assert execute(arguments) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["study"] == "bench-clean"
    assert told["rows"] == json.loads((tmp_path / "bench-clean.json").read_text())
    text = (tmp_path / "bench-clean.md").read_text()
    assert "bome bench clean --preset smoke --docs" in text
    linked = re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)
    assert linked
    assert all((tmp_path / name).exists() for name in linked)


@pytest.mark.usefixtures("_nothing_runs")
def test_mistakes_become_one_line(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    for arguments, word in (
        (["bench", "nonsense"], "known: clean"),
        (["bench", "clean", "--preset", "huge"], "--preset"),
        (["bench", "clean", "--workers", "0"], "--workers"),
        (["bench", "clean", "--preset", "smoke", "--out", str(tmp_path / "mine")], "not empty"),
        (["bench", "clean", "--preset", "quick", "--out", str(folder)], "another experiment"),
        (["reproduce", "toys", "--preset", "smoke", "--out", str(folder)], "another experiment"),
    ):
        assert execute(arguments) == 2
        printed = capsys.readouterr().err
        assert word in printed
        assert printed.count("\n") == 1


@pytest.mark.slow
def test_workers_find_what_one_process_finds(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "two"
    assert execute(["bench", "clean", "--preset", "smoke", "--out", str(out), "--workers", "2", "--quiet"]) == 0
    first, second = (
        [
            (row["method"], row["variant"], row["metric"], round(row["mean"], 3))
            for row in json.loads((each / "results.json").read_text())
            if row["metric"] != "seconds"
        ]
        for each in (folder, out)
    )
    assert first == second
