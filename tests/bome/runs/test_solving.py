"""Folders of `bome solve`: what decides the result, what is refused, what the summary says."""

import json
from pathlib import Path

import pytest

from bome.cli.main import execute
from bome.errors import ProblemError, StorageError
from bome.nested.solve import BUDGET, solve
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
    assert Assignment("sine").command(Path("x"), 1) == f"bome solve sine --seed 0 --budget {BUDGET} --out x"
    given = Assignment("sine", {"start": "left"}, 3, 700, 2, 9.0)
    command = "bome solve sine --set start=left --seed 3 --budget 700 --runs 2 --seconds 9.0 --jobs 2 --out 'a b'"
    assert given.command(Path("a b"), 2) == command


def test_a_task_with_minibatches_is_refused_with_what_to_use() -> None:
    with pytest.raises(ProblemError, match=r"draws minibatches, .* take 'bome run hyperclean-digits'"):
        Assignment("hyperclean-digits").build()


def test_the_summary_says_what_the_result_says(tmp_path: Path) -> None:
    assignment = Assignment("bolib-bard1991ex1", budget=600)
    Folder(tmp_path / "x").claim("solve", vars(assignment), assignment.command(tmp_path / "x", 1))
    summary, stopped = solve_into(tmp_path / "x", assignment)
    assert stopped is None
    assert json.loads((tmp_path / "x" / "summary.json").read_text()) == json.loads(json.dumps(summary))
    assert read_assignment(tmp_path / "x") == assignment
    task = assignment.build()
    result = solve(task.problem, budget=600)
    again = summarised(task, result)
    assert {**again, "seconds": 0} == {**summary, "seconds": 0}
    assert summary["f"] == result.f
    assert summary["v"] == task.problem.point.v[0].tolist()
    assert sum(summary["spent"].values()) <= 600
    assert [each["f"] for each in summary["found"]] == [each.f for each in result.found]
    assert set(summary["prices"]) == {"inner_constraints", "outer_constraints"}


def test_a_damaged_config_is_told(tmp_path: Path) -> None:
    Folder(tmp_path / "x").configure("solve", {"task": "sine", "budgets": 1}, "bome solve sine")
    with pytest.raises(StorageError, match="is damaged: it does not tell what was to be solved"):
        read_assignment(tmp_path / "x")
    assert execute(["run", "lls", "--set", "steps=2", "--quiet", "--out", str(tmp_path / "y")]) == 0
    with pytest.raises(ProblemError, match="holds a run, not a solution"):
        read_assignment(tmp_path / "y")
