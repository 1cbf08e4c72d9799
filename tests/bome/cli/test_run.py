"""`bome run`: what it leaves on disk and what it prints."""

import json
from pathlib import Path

import pytest
import torch
from rich.cells import cell_len

from bome.cli import run
from bome.cli.main import execute
from bome.runs import directory
from bome.runs.directory import read_metrics
from bome.runs.plan import plan
from bome.storage import checkpoint
from bome.storage.folder import Folder
from bome.storage.history import History

KEYS = {
    "status", "reason", "steps", "f", "q", "distance_to_optimum", "optimum", "certificate", "evaluations", "seconds",
    "tuned", "refit", "worth",
}  # fmt: skip


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, where runs draw no figures: reports have tests of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "write_report", lambda folder: folder / "report.html")
    return tmp_path


def test_run_leaves_a_run_directory_and_prints_a_table(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # this one with its page
    monkeypatch.chdir(place)
    assert execute(["run", "lls", "--set", "steps=20", "--out", "x"]) == 0
    printed = capsys.readouterr()
    folder = place / "x"
    assert {path.name for path in folder.iterdir()} == {
        "config.json", "metrics.jsonl", "summary.json", "checkpoints", "figures", "report.html",
    }  # fmt: skip
    summary = json.loads((folder / "summary.json").read_text())
    assert set(summary) == KEYS
    assert summary["status"] == "finished"
    assert summary["steps"] == 20
    assert summary["evaluations"] == {"f": 20, "g": 40, "hvp": 0}
    assert summary["certificate"]["verdict"] in " ".join(printed.out.split()).replace(" │ ", " ")
    assert printed.out.rstrip().endswith("report: x/report.html")
    assert all(cell_len(line) <= 80 for line in printed.out.splitlines())
    assert printed.err == ""
    latest = checkpoint.load_latest(folder / "checkpoints")
    assert latest is not None
    assert latest.step == 20


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ([], "not measured: it takes 28 evaluations, more than a fifth of the run's 60; --refit measures it"),
        (["--refit"], "f after 20 steps on g alone for F(v) 4 f, 24 g warning f = "),
        (["--no-refit"], "not measured: the run has refit=False"),
    ],
)
def test_what_v_is_worth_is_printed_beside_f(
    place: Path, capsys: pytest.CaptureFixture[str], options: list[str], shown: str
) -> None:
    assert execute(["run", "lls", "--set", "steps=20", "--out", "x", *options]) == 0
    assert shown in " ".join(capsys.readouterr().out.split())
    summary = json.loads((place / "x" / "summary.json").read_text())
    assert (summary["refit"] is None) == ("--refit" not in options)
    if summary["refit"]:
        assert summary["refit"]["F"] == json.loads((place / "x" / "metrics.jsonl").read_text().splitlines()[-1])["F"]
        assert summary["refit"]["warnings"][0].startswith("f = ")
        assert summary["evaluations"] == {"f": 20, "g": 40, "hvp": 0}
    assert directory.read_config(place / "x").command.endswith(" ".join(["0", *options]))


def test_the_best_v_is_kept_where_that_is_asked_for(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["run", "quadratic", "--set", "steps=12", "--out", "x", "--keep-best"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "v of 7 v, F(v) is lowest after step " in shown
    config = directory.read_config(place / "x")
    assert config.keep_best
    assert config.command.endswith("--keep-best")


def test_config_holds_what_was_given_and_what_follows(place: Path) -> None:
    assert execute(["run", "quadratic", "--set", "steps=5", "--set", "phi=gap", "--seed", "3", "--quiet"]) == 0
    folder = place / "runs" / "quadratic-bome-steps=5-phi=gap-seed3"
    config = directory.read_config(folder)
    assert config.spec == {"task": "quadratic", "method": "bome", "set": {"steps": 5, "phi": "gap"}, "seed": 3}
    assert config.settings["outer_lr"] == 0.2
    assert config.settings["geometry"] == "euclidean"  # of the method alone
    told = Folder(folder).config()
    assert (told.kind, told.place) == ("run", str(place))
    assert told.command == (
        "bome run quadratic --method bome --set steps=5 --set phi=gap --seed 3 "
        "--out runs/quadratic-bome-steps=5-phi=gap-seed3"
    )


def test_json_is_the_summary_and_nothing_else(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["run", "minimax", "--method", "bome:auto", "--set", "steps=30", "--json", "--out", "x"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == json.loads((place / "x" / "summary.json").read_text())
    assert printed.out.count("\n") == 1
    assert set(json.loads(printed.out)["tuned"]) == {"inner_steps", "outer_scale"}


def test_quiet_prints_nothing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["run", "lls", "--set", "steps=2", "--quiet"]) == 0
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "")


def test_metrics_hold_the_entries_of_small_variables_and_the_distance(place: Path) -> None:
    assert execute(["run", "lls", "--set", "steps=10", "--log-every", "5", "--quiet", "--out", "x"]) == 0
    rows = read_metrics(place / "x")
    assert [row["step"] for row in rows] == [0, 5, 10]
    assert {"v_0", "theta_0", "theta_1", "distance_to_optimum", "lam"} <= set(rows[0])
    assert "theta_2" not in rows[0]
    with History.open(place / "x" / "metrics.jsonl") as history:
        assert repr(history.rows) == repr(rows)  # as text NaN equals NaN


def test_checkpoints_are_saved_as_often_as_asked(place: Path) -> None:
    assert execute(["run", "lls", "--set", "steps=10", "--save-every", "4", "--quiet", "--out", "x"]) == 0
    steps = sorted(path.name for path in (place / "x" / "checkpoints").glob("step_*"))
    assert steps == ["step_00000004", "step_00000008", "step_00000010"]


@pytest.mark.parametrize("oracle", ["autograd", "func", "backward"])
def test_every_oracle_gives_the_same_result(place: Path, oracle: str) -> None:
    for name in ("auto", oracle):
        assert execute(["run", "coreset", "--set", "steps=5", "--oracle", name, "--quiet", "--out", name]) == 0
    first, second = (directory.read_summary(place / name) or {} for name in ("auto", oracle))
    assert first["f"] == pytest.approx(second["f"], rel=1e-12)


def test_a_second_run_goes_to_a_place_of_its_own(place: Path) -> None:
    for _ in range(2):
        assert execute(["run", "lls", "--set", "steps=2", "--quiet"]) == 0
    assert sorted(path.name for path in (place / "runs").iterdir()) == [
        "lls-bome-steps=2-seed0",
        "lls-bome-steps=2-seed0-2",
    ]


def test_a_finished_run_may_be_repeated_in_place(place: Path) -> None:
    command = ["run", "lls", "--set", "steps=4", "--quiet", "--out", "x"]
    assert execute(command) == 0
    first = (place / "x" / "checkpoints" / "step_00000004" / "tensors.safetensors").read_bytes()
    (place / "x" / "notes.txt").write_text("mine")
    assert execute(command) == 0
    assert (place / "x" / "checkpoints" / "step_00000004" / "tensors.safetensors").read_bytes() == first
    assert (place / "x" / "notes.txt").read_text() == "mine"


def test_divergence_is_one_line_exit_3_and_a_report(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", "quadratic", "--set", "outer_lr=1e60", "--set", "decay=0", "--set", "steps=100", "--out", "x"]
    assert execute(command) == 3
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: step ")
    assert printed.err.count("\n") == 1
    summary = directory.read_summary(place / "x") or {}
    assert summary["status"] == "diverged"
    assert set(summary) == KEYS


def test_the_seed_decides_the_result(place: Path) -> None:
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        assert execute(["run", "quadratic", "--set", "steps=3", "--seed", seed, "--quiet", "--out", name]) == 0
    a, b, c = (checkpoint.load_latest(place / name / "checkpoints") for name in "abc")
    assert a is not None
    assert b is not None
    assert c is not None
    assert torch.equal(a.state["v"][0], b.state["v"][0])
    assert not torch.equal(a.state["v"][0], c.state["v"][0])


def test_a_plan_given_by_the_command_line_is_that_of_the_library() -> None:
    assert plan("lls", "bome", {"eta": "0.25"}).method == plan("lls", "bome", {"eta": 0.25}).method
