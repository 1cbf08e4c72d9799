"""Runs as their folders tell them."""

from pathlib import Path

import pytest

from bome.errors import ProblemError
from bome.reports.runs import Group, groups, load
from tests.support.runs import make_run


def test_a_series_leaves_out_rows_without_the_quantity() -> None:
    run = make_run([{"step": 0, "f": 1}, {"step": 1, "f": None}, {"step": 2}, {"step": 3, "f": 0.5, "g": 2}])
    assert run.series("f") == ([0.0, 3.0], [1.0, 0.5])
    assert run.path("f", "g") == ([0.5], [2.0])


def test_runs_are_told_apart_by_start_or_by_name() -> None:
    a, b = make_run([], start="a", name="one"), make_run([], start="b", name="two")
    assert Group((a, b)).labels() == ["from start a", "from start b"]
    assert Group((a, a)).labels() == ["one", "one"]


def test_neighbouring_runs_of_one_problem_are_shown_together() -> None:
    runs = [make_run([], task=task, name=str(i)) for i, task in enumerate("aab")]
    assert [[run.name for run in group.runs] for group in groups(runs)] == [["0", "1"], ["2"]]


def test_what_holds_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="is not a run directory: it has no config"):
        load(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ProblemError, match="is not a directory"):
        load(tmp_path / "file")
