"""`bome sweep`: what it leaves on disk, what it prints, and how it refuses and continues."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from bome.cli.main import execute
from bome.cli.sweep import BackendChoice
from bome.core.pool import Backend
from bome.runs import schedule
from bome.runs.jobs import Outcome
from bome.runs.names import METHODS

GRID = ["--grid", "inner_steps=1,2", "--grid", "outer_lr=10,100"]
SHORT = ["--set", "steps=5", "--seeds", "2"]
TASKS = ("hyperclean-digits", "regularization-digits")


def summary(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_sweep_prints_a_table_of_80_columns_best_first_and_marks_the_chosen(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["sweep", "hyperclean-digits", *GRID, *SHORT, "--out", "x"]
    assert execute(command) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert all(cell_len(line) <= 80 for line in printed.out.splitlines())
    scores = [float(x) for x in re.findall(r"(?:inner_steps=\d|→ +inner_steps=\d) +(\d\.\d+)", printed.out)]
    assert len(scores) == 4
    assert scores == sorted(scores)
    assert printed.out.count("→") == 1
    marked = re.search(r"→ +(inner_steps=\d) .*\n +(outer_lr=\d+\.0)", printed.out)
    assert marked is not None
    assert printed.out.endswith(f"chosen by val2_loss: {' '.join(marked.groups())}\nreport: x/report.html\n")
    assert len(re.findall(r"\d\d\.\d+ ± \d", printed.out)) == 4  # test accuracy
    assert "f1 " in printed.out
    config = json.loads((place / "x" / "config.json").read_text())
    spec = config["spec"]
    assert config["kind"] == "sweep"
    assert spec["grid"] == {"inner_steps": [1, 2], "outer_lr": [10.0, 100.0]}
    assert (spec["task"], spec["method"], spec["set"], spec["seeds"]) == ("hyperclean-digits", "bome", {"steps": 5}, 2)
    assert len(list((place / "x" / "done").iterdir())) == 8


def test_json_has_means_and_standard_errors_of_all_that_is_observed(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(["sweep", "hyperclean-digits", *GRID, *SHORT, "--out", "x", "--json"]) == 0
    found = summary(capsys)
    assert found == json.loads((place / "x" / "summary.json").read_text())
    assert found["chosen_by"] == "val2_loss"
    assert found["chosen"] == {key: found["configurations"][0]["values"][key] for key in ("inner_steps", "outer_lr")}
    assert found["not_finished"] == []
    outcomes = [json.loads(path.read_text()) for path in (place / "x" / "done").iterdir()]
    for configuration in found["configurations"]:
        values = [[key, value] for key, value in sorted(configuration["values"].items())]
        mine = [o["value"]["observed"]["test_accuracy"] for o in outcomes if o["spec"]["values"] == values]
        assert configuration["finished_seeds"] == [0, 1]
        assert configuration["observed"]["test_accuracy"]["mean"] == pytest.approx(sum(mine) / 2)
        assert configuration["observed"]["test_accuracy"]["se"] == pytest.approx(abs(mine[0] - mine[1]) / 2)


def test_the_same_command_again_runs_nothing_and_says_the_same(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["sweep", "lls", "--grid", "eta=0.1,0.5", "--set", "steps=20"]
    assert execute(command) == 0
    first = capsys.readouterr().out
    assert [path.name[:15] for path in (place / "runs").iterdir()] == ["sweep-lls-bome-"]
    monkeypatch.setattr(schedule, "perform", None)
    assert execute(command) == 0
    assert capsys.readouterr().out == first
    assert "chosen by distance_to_optimum: " in first


def test_a_sweep_without_a_grid_runs_the_defaults_for_each_seed(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(["sweep", "lls", "--set", "steps=3", "--seeds", "2", "--json"]) == 0
    (configuration,) = summary(capsys)["configurations"]
    assert configuration["finished_seeds"] == [0, 1]


def test_quiet_prints_nothing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["sweep", "lls", "--set", "steps=3", "--quiet"]) == 0
    assert tuple(capsys.readouterr()) == ("", "")


def test_another_sweep_in_the_folder_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["sweep", "lls", "--set", "steps=3", "--quiet", "--out", "x"]) == 0
    assert execute(["sweep", "lls", "--set", "steps=4", "--quiet", "--out", "x"]) == 2
    assert (
        capsys.readouterr().err == "error: x holds another sweep, with other inputs or settings: choose another --out\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lls", "--grid", "etta=1,2"], "unknown setting 'etta'; did you mean 'eta'?"),
        (["lls", "--grid", "eta=0.1,x"], "eta must be a number, got 'x'"),
        (["lls", "--grid", "inner_steps=1,1.5"], "inner_steps must be a whole number, got '1.5'"),
        (["lls", "--grid", "inner_steps=1,0"], "inner_steps (T) must be a whole number of at least 1"),
        (["lls", "--grid", "eta"], "--grid wants KEY=V1,V2,..., such as --grid outer_lr=10,100, got 'eta'"),
        (["lls", "--grid", "eta=1,,2"], "--grid wants KEY=V1,V2,..., such as --grid outer_lr=10,100, got 'eta=1,,2'"),
        (["lls", "--grid", "eta=1", "--grid", "eta=2"], "eta is twice in the grid"),
        (["lls", "--grid", "eta=1", "--set", "eta=2"], "eta is given both as a setting and in the grid"),
        (["lls", "--method", "bohm"], "unknown method 'bohm'; did you mean 'bome'?"),
        (["lls", "--method", "bome:fast"], "unknown variant of bome 'fast'"),
        (["lsl"], "unknown task 'lsl'; did you mean 'lls'?"),
        (["lls", "--grid", "eta=" + ",".join(map(str, range(1000))), "--seeds", "101"], "the grid has 101,000 runs"),
        (["lls", "--method", "gda"], "gda cannot solve this problem: "),
        (["lls", "--seeds", "0"], "Invalid value for '--seeds'"),
        (["lls", "--backend", "slurm"], "Invalid value for '--backend'"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line_before_anything_is_written(
    words: list[str], message: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(["sweep", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert list(place.iterdir()) == []


def test_a_typo_is_found_before_the_data_is_asked_for(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bome.tasks.hyperclean.split_of", None)
    assert execute(["sweep", "hyperclean-mnist", "--grid", "outer_lr=1,ten"]) == 2
    assert "outer_lr must be a number, got 'ten'" in capsys.readouterr().err


def test_diverged_runs_are_listed_with_their_reason_and_never_chosen(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["sweep", "quadratic", "--grid", "outer_lr=1e-3,1e60", "--set", "decay=0", "--set", "steps=40"]
    assert execute([*command, "--out", "x"]) == 0
    printed = capsys.readouterr().out
    assert all(cell_len(line) <= 80 for line in printed.splitlines())
    assert "Not finished" in printed
    assert "chosen by distance_to_optimum: outer_lr=0.001" in printed
    assert execute([*command, "--out", "x", "--json"]) == 0
    found = summary(capsys)
    (broken,) = found["not_finished"]
    assert broken["status"] == "diverged"
    assert broken["values"]["outer_lr"] == 1e60
    assert re.match(r"step \d+: .* is not finite", broken["reason"])
    assert found["configurations"][1]["score"] is None


def test_a_sweep_in_which_nothing_finishes_says_why_with_exit_3(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["sweep", "quadratic", "--set", "outer_lr=1e60", "--set", "decay=0", "--set", "steps=40", "--quiet"]
    assert execute(words) == 3
    printed = capsys.readouterr().err
    assert printed.startswith("error: no configuration finished on all seeds; the first one: step ")
    assert printed.count("\n") == 1


def test_the_choice_of_backends_is_that_of_the_library() -> None:
    assert tuple(BackendChoice) == Backend.__args__  # type: ignore[attr-defined]


def test_workers_do_what_cannot_go_as_a_batch(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sweep", "lls", "--grid", "eta=0.1,0.5,0.9", "--set", "steps=5", "--json"]
    assert execute([*words, "--out", "one"]) == 0
    one = summary(capsys)
    assert execute([*words, "--out", "two", "--workers", "2"]) == 0
    two = summary(capsys)
    assert one["configurations"] == two["configurations"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", TASKS)
def test_every_method_runs_on_the_tasks_by_one_command(
    task: str, method: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["sweep", task, "--method", method, "--set", "steps=2", "--seeds", "1", "--out", "x", "--json"]
    code = execute(words)
    printed = capsys.readouterr()
    if method in ("gda", "ogda"):
        assert code == 2
        assert printed.err.startswith(f"error: {method} cannot solve this problem: ")
        assert not (place / "x").exists()
        return
    assert code == 0, printed.err
    found = json.loads(printed.out)
    assert found["not_finished"] == []
    observed = found["configurations"][0]["observed"]
    assert 0 <= observed["test_accuracy"]["mean"] <= 100
    assert ("f1" in observed) == (task == "hyperclean-digits")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_an_interrupted_sweep_says_how_to_continue_and_continues(number: int, code: int, tmp_path: Path) -> None:
    words = ["sweep", "lls", "--grid", "eta=0.1,0.5", "--set", "steps=600", "--out", "x"]
    script = "from bome.cli.main import main; main()"
    child = subprocess.Popen(
        [sys.executable, "-c", script, *words], cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 100
    while not list(tmp_path.glob("x/at_work/*/checkpoints/step_*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(child.pid, number)
    out, err = child.communicate(timeout=100)
    assert (child.returncode, out) == (code, "")
    assert err.startswith("error: interrupted by SIG")
    continued = re.search(r"continue with: (bome .*)\n$", err)
    assert continued is not None
    assert continued.group(1).split()[1:3] == ["resume", "x"]
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        assert execute([*continued.group(1).split()[1:], "--quiet"]) == 0
    finally:
        os.chdir(before)
    done = [json.loads(path.read_text())["value"] for path in (tmp_path / "x" / "done").iterdir()]
    assert [outcome["steps"] for outcome in done] == [600, 600]
    assert {key for outcome in done for key in outcome} == set(Outcome.__dataclass_fields__) - {"job"}
