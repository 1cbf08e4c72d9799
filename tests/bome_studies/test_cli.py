"""`bome reproduce` and `bome bench`: studies into folders and onto pages, in a few seconds."""

import json
import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from bome._typing import Report
from bome.cli.main import execute
from bome_studies import cli
from bome_studies.cleaning.methods import METHODS
from bome_studies.scale import trials as scale
from bome_studies.study import Claim, Findings, Preset


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reproduce") / "toys"
    assert execute(["reproduce", "toys", "--preset", "smoke", "--out", str(folder), "--quiet"]) == 0
    return folder


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench") / "clean"
    assert execute(["bench", "clean", "--preset", "smoke", "--out", str(folder), "--quiet"]) == 0
    return folder


@pytest.fixture
def _nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bome_studies.parts.each", lambda work, parts, workers: iter([None] * len(parts)))


@pytest.fixture
def _plain_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of the time."""
    monkeypatch.setattr("bome_studies.figures.render", lambda figure: b"<svg/>")


def test_every_study_has_the_name_it_is_asked_for_by() -> None:
    assert all(cli.load(place).name == name for name, place in cli.REPRODUCE.items())
    assert all(cli.load(place).name == f"bench-{name}" for name, place in cli.BENCH.items())


# --- reproduce --------------------------------------------------------------------------------------------------------


def test_a_study_leaves_numbers_claims_figures_and_a_page(toys: Path) -> None:
    rows = json.loads((toys / "results.json").read_text())
    keys = {"task", "method", "variant", "metric", "mean", "se", "seeds", "preset", "command"}
    assert all(row.keys() == keys for row in rows)
    assert {row["task"] for row in rows} == {"coreset", "minimax", "lls"}
    assert {row["preset"] for row in rows} == {"smoke"}
    told = json.loads((toys / "findings.json").read_text())
    assert all(claim["holds"] is None for claim in told["claims"])  # a few steps decide nothing
    names = [figure["name"] for section in told["sections"] for figure in section["figures"]]
    assert sorted(names) == sorted(path.stem for path in (toys / "figures").glob("*.svg"))


def test_the_page_needs_nothing_else_and_runs_nothing(toys: Path) -> None:
    text = (toys / "report.html").read_text()
    assert "Content-Security-Policy" in text
    assert "<script" not in text
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", text)
    told = json.loads((toys / "findings.json").read_text())
    assert text.count("<figure") == sum(len(section["figures"]) for section in told["sections"])
    assert "bome reproduce toys --preset smoke" in text
    assert "open" in text
    for anchor in re.findall(r'href="#([^"]+)"', text):
        assert f'id="{anchor}"' in text


def test_the_page_is_made_again_without_computing(
    toys: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (toys / "report.html").read_text()
    (toys / "report.html").unlink()
    monkeypatch.setattr("bome_studies.parts.each", None)
    assert execute(["report", str(toys)]) == 0
    assert "report: " in capsys.readouterr().out
    assert (toys / "report.html").read_text() == before


@pytest.mark.usefixtures("_plain_figures", "_nothing_runs")
def test_a_second_run_reads_the_finished_parts_and_prints_80_columns(
    toys: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ["reproduce", "toys", "--preset", "smoke", "--out", str(toys)]
    assert execute([*arguments, "--docs", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert all(cell_len(line) <= 80 for line in printed.splitlines() if not line.startswith("report: "))
    assert "open" in printed
    text = (tmp_path / "toys.md").read_text()
    assert json.loads((tmp_path / "toys.json").read_text()) == json.loads((toys / "results.json").read_text())
    linked = re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)
    assert linked
    assert all((tmp_path / name).exists() for name in linked)


@pytest.mark.usefixtures("_plain_figures")
def test_json_has_the_claims_and_rows(toys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["reproduce", "toys", "--preset", "smoke", "--out", str(toys), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["study"] == "toys"
    assert told["claims"]
    assert told["rows"]
    assert told["report"].endswith("report.html")


def test_mistakes_in_reproduce_become_one_line(toys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    cases = (
        (["reproduce", "toy"], "unknown study 'toy'; did you mean 'toys'?"),
        (["reproduce", "toys", "--preset", "quick", "--out", str(toys)], "holds another study"),
        (["reproduce", "toys", "--preset", "smoke", "--out", str(tmp_path / "other")], "not empty"),
        (["reproduce", "toys", "--preset", "smoke", "--out", str(tmp_path / "other" / "file")], "is a file"),
        (["reproduce", "toys", "--preset", "slow"], "slow"),
    )
    for arguments, message in cases:
        assert execute(arguments) == 2
        told = capsys.readouterr().err
        assert told.startswith("error: ")
        assert message in told
    assert (tmp_path / "other" / "file").read_text() == "mine"


class Fake:
    """A study that is over at once."""

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, preset: Preset, folder: Path, report: Report, workers: int = 1) -> Findings:
        claims = (Claim("<b>one</b>", "", "", "3 of 4", False), Claim("two", "", "", "", True))
        return Findings(f"Title of {self.name}", "About it.", (), claims, ())


def _in_place_of_all(monkeypatch: pytest.MonkeyPatch, *studies: Fake) -> None:
    known = {study.name: study for study in studies}
    monkeypatch.setattr("bome_studies.cli.REPRODUCE", {name: name for name in known})
    monkeypatch.setattr("bome_studies.cli.load", known.__getitem__)


def test_all_studies_have_a_page_over_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _in_place_of_all(monkeypatch, Fake("a"), Fake("b"))
    assert execute(["reproduce", "all", "--preset", "smoke", "--out", str(tmp_path)]) == 0
    assert "all reports:" in capsys.readouterr().out
    text = (tmp_path / "index.html").read_text()
    assert "Content-Security-Policy" in text
    assert "<script" not in text
    assert "&lt;b&gt;one&lt;/b&gt;: 3 of 4" in text
    links = re.findall(r'href="([^"#]+)"', text)
    assert links == ["a/report.html", "b/report.html"]
    assert all((tmp_path / link).exists() for link in links)


def test_without_a_folder_the_page_links_to_where_the_studies_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _in_place_of_all(monkeypatch, Fake("a"))
    monkeypatch.chdir(tmp_path)
    assert execute(["reproduce", "all", "--preset", "smoke", "--quiet"]) == 0
    index = tmp_path / "runs" / "reproduce-all-smoke" / "index.html"
    link = re.findall(r'href="([^"#]+)"', index.read_text())[0]
    assert (index.parent / link).exists()


def test_an_interrupted_report_of_all_says_how_to_go_on_with_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Stopped(Fake):
        def run(self, preset: Preset, folder: Path, report: Report, workers: int = 1) -> Findings:
            raise KeyboardInterrupt

    _in_place_of_all(monkeypatch, Fake("a"), Stopped("b"))
    out, docs = tmp_path / "the runs", tmp_path / "docs"
    assert execute(["reproduce", "all", "--preset", "smoke", "--out", str(out), "--docs", str(docs)]) == 130
    printed = capsys.readouterr().err.replace("\n", "")
    assert f"continue with: bome reproduce all --preset smoke --out '{out}' --docs {docs}" in printed
    stored = json.loads((out / "b" / "config.json").read_text())
    assert stored["command"] == f"bome reproduce b --preset smoke --out '{out / 'b'}' --docs {docs}"


def test_an_interrupted_benchmark_says_how_to_go_on_and_stores_the_complete_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object) -> Findings:
        raise KeyboardInterrupt

    monkeypatch.setattr("bome_studies.cleaning.study.Cleaning.run", stopped)
    out = tmp_path / "out"
    assert execute(["bench", "clean", "--preset", "smoke", "--workers", "2", "--out", str(out)]) == 130
    printed = capsys.readouterr().err.replace("\n", "")
    assert f"continue with: bome resume {out}" in printed
    stored = json.loads((out / "config.json").read_text())
    assert stored["command"] == f"bome bench clean --preset smoke --workers 2 --out {out}"


# --- bench ------------------------------------------------------------------------------------------------------------


def test_every_method_is_judged_on_every_cell(cleaned: Path) -> None:
    rows = json.loads((cleaned / "results.json").read_text())
    assert {row["method"] for row in rows} == set(METHODS)
    assert {row["metric"] for row in rows} == {"test_accuracy", "auc", "f1", "seconds"}
    assert len(rows) == 2 * len(METHODS) * 4  # none failed
    assert {row["seeds"] for row in rows} == {2}
    assert {row["command"] for row in rows} == {"bome bench clean --preset smoke"}
    assert len(list((cleaned / "parts").rglob("*.json"))) == 2 * 2 * len(METHODS)


def test_a_benchmark_leaves_aims_figures_and_a_page(cleaned: Path) -> None:
    told = json.loads((cleaned / "findings.json").read_text())
    assert len(told["claims"]) == 7
    assert all(claim["holds"] is None for claim in told["claims"])  # two seeds of tiny cells decide nothing
    names = [figure["name"] for section in told["sections"] for figure in section["figures"]]
    assert {"to-best", "times", "digits-test_accuracy", "digits-auc", "digits-f1"} == set(names)
    text = (cleaned / "report.html").read_text()
    assert "bome bench clean --preset smoke" in text
    assert "Claims of the paper" not in text
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", text)


@pytest.mark.usefixtures("_nothing_runs")
def test_a_second_run_reads_what_is_there_and_writes_the_documentation(
    cleaned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["bench", "clean", "--preset", "smoke", "--out", str(cleaned), "--docs", str(tmp_path), "--json"]
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
def test_mistakes_in_bench_become_one_line(cleaned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    for arguments, word in (
        (["bench", "nonsense"], "known: clean"),
        (["bench", "clean", "--preset", "huge"], "--preset"),
        (["bench", "clean", "--workers", "0"], "--workers"),
        (["bench", "clean", "--preset", "smoke", "--out", str(tmp_path / "mine")], "not empty"),
        (["bench", "clean", "--preset", "quick", "--out", str(cleaned)], "holds another benchmark"),
        (["reproduce", "toys", "--preset", "smoke", "--out", str(cleaned)], "holds a benchmark, not a study"),
    ):
        assert execute(arguments) == 2
        printed = capsys.readouterr().err
        assert word in printed
        assert printed.count("\n") == 1


@pytest.mark.slow
def test_workers_find_what_one_process_finds(cleaned: Path, tmp_path: Path) -> None:
    out = tmp_path / "two"
    assert execute(["bench", "clean", "--preset", "smoke", "--out", str(out), "--workers", "2", "--quiet"]) == 0
    first, second = (
        [
            (row["method"], row["variant"], row["metric"], round(row["mean"], 3))
            for row in json.loads((each / "results.json").read_text())
            if row["metric"] != "seconds"
        ]
        for each in (cleaned, out)
    )
    assert first == second


@pytest.mark.usefixtures("_plain_figures")
@pytest.mark.parametrize("name", ["mix", "scale"])
def test_a_benchmark_is_read_back_and_linked_to_its_figures(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = ["bench", name, "--preset", "smoke", "--out", str(tmp_path / "out")]
    # Processes of their own take too long here.
    monkeypatch.setattr(scale, "of_ranks", lambda ranks, protocol: {"seconds": 1.0, "ratio": 1.0})
    assert execute([*out, "--quiet"]) == 0
    monkeypatch.setattr("bome_studies.parts.each", lambda work, parts, workers: iter([None] * len(parts)))
    assert execute([*out, "--docs", str(tmp_path / "docs"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["claims"]) == 5
    assert all(claim["holds"] is None for claim in told["claims"])  # of so little nothing can be said
    text = (tmp_path / "docs" / f"bench-{name}.md").read_text()
    linked = re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)
    assert linked
    assert all((tmp_path / "docs" / path).exists() for path in linked)
