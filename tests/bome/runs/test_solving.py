"""Folders of `bome solve`: what decides the result, what is refused, what the summary says."""

import json
from pathlib import Path

import pytest

from bome.cli.main import execute
from bome.errors import ProblemError, StorageError
from bome.nested.solve import BUDGET, BUDGET_SAMPLED, solve
from bome.runs.solving import Assignment, read_assignment, solve_into, summarised
from bome.storage.folder import Folder


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"task": "sines"}, "unknown task 'sines'; did you mean 'sine'?"),
        ({"task": "sine", "set": {"starts": "a"}}, "unknown setting of a task 'starts'; did you mean 'start'?"),
        ({"task": "sine", "budget": 0}, "budget must be a whole number of at least 1, got 0"),
        ({"task": "sine", "runs": -1}, "runs must be a whole number of at least 1, got -1"),
        ({"task": "sine", "seconds": 0.0}, "seconds must be a positive number, got 0.0"),
    ],
)
def test_wrong_assignments_are_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(ProblemError) as refusal:
        Assignment(**given)  # type: ignore[arg-type]
    assert str(refusal.value) == words


def test_the_command_has_all_that_was_given_and_no_more() -> None:
    assert Assignment("sine").command(Path("x"), 1) == "bome solve sine --seed 0 --out x"
    given = Assignment("sine", {"start": "left"}, 3, 700, 2, 9.0)
    command = "bome solve sine --set start=left --seed 3 --budget 700 --runs 2 --seconds 9.0 --jobs 2 --out 'a b'"
    assert given.command(Path("a b"), 2) == command


def test_a_task_with_batches_has_other_settings() -> None:
    digits, sine = Assignment("hyperclean-digits", {"batch": "50"}), Assignment("sine")
    tasks = digits.build(), sine.build()
    assert (digits.most(tasks[0]), sine.most(tasks[1])) == (BUDGET_SAMPLED, BUDGET)
    assert Assignment("sine", budget=7).most(tasks[1]) == 7
    data = digits.data(tasks[0])
    assert data is not None
    assert len(data.inner.next().rows) == 50
    assert sine.data(tasks[1]) is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"task": "sine", "horizon": 5}, "sine has no batches: leave horizon out"),
        ({"task": "sine", "set": {"batch": "5"}}, "sine has no batches: leave batch out"),
        ({"task": "hyperclean-digits", "runs": 2}, "hyperclean-digits has batches, so there are no runs"),
    ],
)
def test_what_only_the_other_kind_of_task_has_is_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(ProblemError, match=words):
        Assignment(**given).build()  # type: ignore[arg-type]


def test_a_race_is_summarised_with_what_each_v_was_worth(tmp_path: Path) -> None:
    assignment = Assignment("hyperclean-digits", {"batch": "100"}, budget=1000, horizon=30)
    Folder(tmp_path / "x").claim("solve", vars(assignment), assignment.command(tmp_path / "x", 1))
    summary, stopped = solve_into(tmp_path / "x", assignment)
    assert stopped is None
    assert json.loads((tmp_path / "x" / "summary.json").read_text()) == json.loads(json.dumps(summary))
    assert list(summary["arms"])[:3] == ["start", "young", "old"]
    assert summary["f"] == summary["arms"][summary["arm"]]["F"] == min(each["F"] for each in summary["arms"].values())
    assert summary["tuned"]["horizon"] == 30
    assert set(summary["observed"]) >= {"test_accuracy"}


def test_the_summary_says_what_the_result_says(tmp_path: Path) -> None:
    assignment = Assignment("bolib-bard1991ex1", budget=1_000)
    Folder(tmp_path / "x").claim("solve", vars(assignment), assignment.command(tmp_path / "x", 1))
    summary, stopped = solve_into(tmp_path / "x", assignment)
    assert stopped is None
    assert json.loads((tmp_path / "x" / "summary.json").read_text()) == json.loads(json.dumps(summary))
    assert read_assignment(tmp_path / "x") == assignment
    task = assignment.build()
    result = solve(task.problem, budget=1_000)
    again = summarised(task, result)
    assert {**again, "seconds": 0} == {**summary, "seconds": 0}
    assert summary["f"] == result.f
    assert summary["v"] == task.problem.point.v[0].tolist()
    assert sum(summary["spent"].values()) == sum(summary["evaluations"].values()) <= 1_000
    assert [each["f"] for each in summary["found"]] == [each.f for each in result.found]
    assert set(summary["prices"]) == {"inner_constraints", "outer_constraints"}


def test_a_damaged_config_is_told(tmp_path: Path) -> None:
    Folder(tmp_path / "x").configure("solve", {"task": "sine", "budgets": 1}, "bome solve sine")
    with pytest.raises(StorageError, match="is damaged: it does not tell what was to be solved"):
        read_assignment(tmp_path / "x")
    assert execute(["run", "lls", "--set", "steps=2", "--quiet", "--out", str(tmp_path / "y")]) == 0
    with pytest.raises(ProblemError, match="holds a run, not a solution"):
        read_assignment(tmp_path / "y")
