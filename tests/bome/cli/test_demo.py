"""`bome demo`."""

import re
from pathlib import Path
from typing import Any

import pytest

from bome.cli import demo
from bome.cli.main import execute
from bome.runs import directory
from bome.runs.plan import plan


def test_demo_solves_its_problems_and_writes_one_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = tuple(toy._replace(settings={**toy.settings, "steps": 3}) for toy in demo.TOYS[2:4])
    monkeypatch.setattr(demo, "TOYS", few)
    monkeypatch.setattr(
        demo, "_clean_digits", lambda folder, seed, quiet: (folder / "cleaned").mkdir(parents=True, exist_ok=True)
    )
    for _ in range(2):  # the second time in the place of the first
        assert execute(["demo", "--out", str(tmp_path / "d"), "--seed", "1"]) == 0
        printed = capsys.readouterr().out
        assert printed.rstrip().split("\n")[-1] == f"report: {tmp_path / 'd' / 'report.html'}"
        assert all(toy.name in printed for toy in few)
    assert {path.name for path in (tmp_path / "d").iterdir()} == {
        *(toy.name for toy in few), "collection.json", "report.html", "figures", "digits", "config.json",
        "summary.json",
    }  # fmt: skip
    assert "bome demo --seed 1" in (tmp_path / "d" / "report.html").read_text()


def test_demo_ends_with_digits_cleaned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "TOYS", ())
    monkeypatch.setattr(demo, "_solve_toys", lambda out, seed, quiet: None)
    monkeypatch.setattr("bome.apps.clean.example.ROWS", 300)
    assert execute(["demo", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    folder = tmp_path / "digits" / "cleaned"
    assert printed.rstrip().split("\n")[-1] == f"report: {folder / 'report.html'}"
    found = re.search(r"(\d+), among them (\d+) of the (\d+) wrong ones", printed)
    assert found is not None
    called, right, wrong = map(int, found.groups())
    assert right > 0.8 * max(called, wrong)
    plain, _, cleaned = (float(share) for share in re.findall(r"(\d+\.\d)%", printed))
    assert cleaned > plain
    assert "data:image/png" in (folder / "report.html").read_text()


def test_the_settings_of_the_demo_are_valid_and_cover_the_toys_of_the_paper() -> None:
    for toy in demo.TOYS:
        plan(toy.task, "bome", toy.settings, 0)
    assert {toy.task for toy in demo.TOYS} == {"coreset", "minimax", "lls", "quadratic", "sine"}
    assert {toy.settings["start"] for toy in demo.TOYS if toy.task == "coreset"} == {"a", "b", "c"}


@pytest.mark.slow
def test_the_demo_reaches_the_known_solutions(tmp_path: Path) -> None:
    assert execute(["demo", "--out", str(tmp_path), "--quiet"]) == 0
    for toy in demo.TOYS:
        summary = directory.read_summary(tmp_path / toy.name) or {}
        assert summary["distance_to_optimum"] < 0.06, toy.name


def test_a_demo_that_was_stopped_reads_what_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = tuple(toy._replace(settings={**toy.settings, "steps": 3}) for toy in demo.TOYS[2:5])
    monkeypatch.setattr(demo, "TOYS", few)
    monkeypatch.setattr(demo, "write_report", lambda folder: folder / "report.html")
    monkeypatch.setattr(demo, "_clean_digits", lambda folder, seed, quiet: None)
    perform, solved = directory.perform_into, []

    def counted(folder: Path, *arguments: Any, **named: Any) -> dict[str, Any]:
        solved.append(folder.name)
        if len(solved) == 2:
            raise KeyboardInterrupt
        return perform(folder, *arguments, **named)

    monkeypatch.setattr(directory, "perform_into", counted)
    command = ["demo", "--out", str(tmp_path / "d"), "--quiet"]
    assert execute(command) == 130
    assert execute(command) == 0
    first, second, third = (toy.name for toy in few)
    assert solved == [first, second, second, third]
    assert execute([*command, "--seed", "1"]) == 0  # another one takes its place
    assert solved[4:] == [first, second, third]


def test_what_is_not_ours_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lls").mkdir()
    (tmp_path / "lls" / "thesis.tex").write_text("precious")
    assert execute(["demo", "--out", str(tmp_path)]) == 2
    assert "choose another --out" in capsys.readouterr().err
    assert (tmp_path / "lls" / "thesis.tex").exists()
