"""`bome solve`: what it prints, what it leaves on disk, how it refuses and continues."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from bome.arms.arm import Arm
from bome.cli.main import execute
from bome.cli.solve import vector
from bome.nested import session
from bome.nested.search import Search, State, advanced

SMALL = ["solve", "bolib-bard1991ex1", "--budget", "1000"]


def test_a_solution_is_printed_in_80_columns_with_its_verdict_and_page(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute([*SMALL, "--out", "x"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert all(cell_len(line) <= 80 for line in printed.out.splitlines())
    assert "(optimum 2)" in printed.out
    assert "shadow prices, outer constraints" in printed.out
    assert printed.out.endswith("report: x/report.html\n")
    config = json.loads((place / "x" / "config.json").read_text())
    assert config["kind"] == "solve"
    assert config["command"] == "bome solve bolib-bard1991ex1 --seed 0 --budget 1000 --out x"


def test_json_is_the_summary(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute([*SMALL, "--out", "x", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((place / "x" / "summary.json").read_text())


def test_what_is_finished_is_read_and_not_solved_again(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute([*SMALL, "--out", "x", "--quiet"]) == 0
    before = (place / "x" / "summary.json").read_bytes()
    assert execute([*SMALL, "--out", "x"]) == 0
    assert "finished already" in capsys.readouterr().err
    assert execute(["resume", "x"]) == 0
    assert "finished already" in capsys.readouterr().err
    assert (place / "x" / "summary.json").read_bytes() == before
    assert execute([*SMALL[:2], "--budget", "601", "--out", "x"]) == 2
    assert "holds another solution, with other inputs or settings: choose another --out" in capsys.readouterr().err


def test_equal_seeds_give_equal_summaries(place: Path) -> None:
    for name in ("x", "y"):
        assert execute([*SMALL, "--out", name, "--quiet"]) == 0
    one, other = (json.loads((place / name / "summary.json").read_text()) for name in ("x", "y"))
    assert {**one, "seconds": 0} == {**other, "seconds": 0}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_shows_the_best_so_far_and_the_command_that_goes_on_bit_for_bit(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    assert execute([*SMALL, "--out", "whole", "--quiet"]) == 0
    seen = iter(range(1000))

    def interrupt(search: Search, state: State) -> State:
        if next(seen) == 5:
            os.kill(os.getpid(), number)
        return advanced(search, state)

    with monkeypatch.context() as patch:
        patch.setattr(session, "advanced", interrupt)
        assert execute([*SMALL, "--out", "x"]) == 128 + number
    printed = capsys.readouterr()
    assert f"interrupted by {number.name}" in printed.out
    assert printed.err == "error: interrupted; this is the best so far; continue with: bome resume x\n"
    assert not (place / "x" / "summary.json").exists()
    assert execute(["resume", "x", "--quiet"]) == 0
    one, other = (json.loads((place / name / "summary.json").read_text()) for name in ("whole", "x"))
    assert {**one, "seconds": 0} == {**other, "seconds": 0}


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["solve", "sines"], "unknown task 'sines'; did you mean 'sine'?"),
        (["solve", "hyperclean-digits", "--horizon", "9999"], "a horizon of 9999 needs a budget of at least 59994"),
        (["solve", "sine", "--horizon", "9"], "sine has no batches: leave horizon out"),
        (["solve", "sine", "--set", "eta=1"], "unknown setting of a task 'eta'"),
        (["solve", "sine", "--seconds", "0"], "seconds must be a positive number"),
    ],
)
def test_mistakes_are_one_line(place: Path, capsys: pytest.CaptureFixture[str], words: list[str], answer: str) -> None:
    assert execute(words) == 2
    printed = capsys.readouterr().err
    assert answer in printed
    assert printed.count("\n") == 1
    assert list(place.iterdir()) == []


RACE = ["solve", "hyperclean-digits", "--set", "batch=100", "--budget", "1000"]


def test_a_race_is_printed_with_what_each_v_was_worth(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute([*RACE, "--out", "x"]) == 0
    printed = capsys.readouterr().out
    assert all(cell_len(line) <= 80 for line in printed.splitlines())
    assert all(words in printed for words in ("v judged by training", "young", "old", "confirmed by training"))


def test_a_race_that_was_interrupted_goes_on_bit_for_bit(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute([*RACE, "--out", "whole", "--quiet"]) == 0
    steps = []

    def interrupted(arm: Arm, spent: float) -> Any:
        steps.append(spent)
        if len(steps) == 9:
            os.kill(os.getpid(), signal.SIGINT)
        return step(arm, spent)

    step = Arm.step
    monkeypatch.setattr(Arm, "step", interrupted)
    assert execute([*RACE, "--out", "x", "--quiet"]) == 130
    assert capsys.readouterr().err.endswith("continue with: bome resume x\n")
    assert execute(["resume", "x", "--quiet"]) == 0
    one, other = (json.loads((place / name / "summary.json").read_text()) for name in ("whole", "x"))
    assert {**one, "seconds": 0} == {**other, "seconds": 0}


def test_large_variables_are_not_printed() -> None:
    assert vector(None) == "in the checkpoint"
    assert vector([1.0, 2.5]) == "1, 2.5"
    assert vector([]) == "–"
