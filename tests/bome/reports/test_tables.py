"""The tables of a report: numbers for people, no empty rows, every number of a certificate explained."""

from dataclasses import asdict, fields, replace
from typing import Any

import pytest

from bome.certificate import Certificate, Test
from bome.reports import tables
from bome.reports.runs import Run
from tests.support.runs import make_run

SUMMARY: dict[str, Any] = {
    "status": "finished",
    "reason": "20 steps done",
    "f": 1.25,
    "q": 1e-9,
    "steps": 2000,
    "seconds": 0.5,
    "optimum": {"f": 1.0, "text": "θ = 1"},
    "observed": {"test_accuracy": 91.0, "acc": 60.0},
    "evaluations": {"f": 20, "g": 1200, "hvp": 0},
    "certificate": {"kkt": 0.5, "verdict": "nearly stationary"},
}


def ended(**changes: Any) -> Run:
    return replace(make_run([]), summary={**SUMMARY, **changes})


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234567, "1,234,567"), (0.123456, "0.1235"), (None, "–"), ("text", "–"), (True, "–"), (float("nan"), "nan")],
)
def test_numbers_are_short_and_a_dash_stands_for_none(value: Any, text: str) -> None:
    assert tables.number(value) == text


@pytest.mark.parametrize(("text", "whole"), [("it ends", "It ends."), ("Done!", "Done!"), (" ", ""), ("a.", "A.")])
def test_a_sentence_has_a_capital_and_a_full_stop(text: str, whole: str) -> None:
    assert tables.sentence(text) == whole


def test_the_table_of_runs_has_only_columns_that_some_run_fills_and_costs_come_last() -> None:
    names, lines = tables.overview([ended(), make_run([])])
    assert names[-2:] == ["evaluations", "seconds"]
    assert {"f", "optimal f", "gap q̂", "test accuracy", "ACC"} <= set(names)
    assert "distance" not in names
    assert lines[0][names.index("evaluations")] == "20 f, 1,200 g"
    assert lines[1][names.index("f")] == "–"


def test_the_results_of_a_run_leave_out_what_is_not_known() -> None:
    rows = dict(tables.results(ended()))
    assert rows["outer loss f"] == "1.25"
    assert rows["solution"] == "θ = 1"
    assert rows["outer steps"] == "2,000"
    assert "distance to it" not in rows
    assert "batches learned" in dict(tables.results(ended(matrix=[])))


def test_f_and_what_v_is_worth_stand_side_by_side() -> None:
    refit = {
        "F": 1.81,
        "F_first": 1.72,
        "steps": 1000,
        "warnings": ["f = 1.25 flatters", "v = 0"],
        "evaluations": {"g": 9},
    }
    rows = tables.results(ended(refit=refit))
    assert rows[:5] == [
        ("outer loss f", "1.25"),
        ("F(v): f at a θ trained anew on g alone", "1.81, after 1,000 steps"),
        ("the same with the first v", "1.72"),
        ("warning", "f = 1.25 flatters."),
        ("warning", "v = 0."),
    ]
    assert dict(rows)["beside them, for F(v)"] == "9 g"
    names, (line,) = tables.overview([ended(refit=refit)])
    assert (line[names.index("f")], line[names.index("F(v)")]) == ("1.25", "1.81")
    assert names.index("F(v)") == names.index("f") + 1
    assert dict(tables.results(ended(refit=None, worth="F(v) is not measured: why")))["F(v)"] == "not measured: why"


def test_how_a_run_ended_is_a_sentence() -> None:
    assert tables.status(ended()) == "This run is complete: 20 steps done."
    assert tables.status(ended(status="diverged", reason="f is not finite")) == "This run diverged: f is not finite."
    assert tables.status(make_run([{"step": 0}])) == "This run has not ended; 1 rows are logged so far."
    assert tables.verdict(ended()) == "Nearly stationary."
    assert tables.verdict(ended(certificate={})) == "This run is complete: 20 steps done."


def test_every_number_of_a_certificate_is_explained() -> None:
    explained = {key for key, _, _ in tables.CERTIFICATE}
    assert explained == {field.name for field in fields(Certificate)} - {"tests", "claim", "evaluations"}
    rows = tables.certificate(ended())
    assert rows[0][:2] == ("𝒦, estimated", "0.5")
    assert all(value == "–" for _, value, _ in rows[1:])
    assert tables.certificate(make_run([])) == []


def test_the_tests_of_a_certificate_are_a_table() -> None:
    made = [
        asdict(Test("θ solves the inner problem", 0.25, 0.01, False, "g can fall")),
        asdict(Test("T is long enough", None, 0.3, None)),
    ]
    assert tables.tests({"tests": made}) == [
        ("θ solves the inner problem", "no", "0.25", "0.01"),
        ("T is long enough", "not known", "–", "0.3"),
    ]
    assert tables.tests({"tests": "damaged"}) == tables.tests({"tests": [3]}) == tables.tests({}) == []


def test_settings_are_marked_where_they_were_given_by_hand() -> None:
    run = replace(make_run([]), settings={"eta": 0.5, "phi": "gap"}, given=("eta",))
    assert tables.settings(run) == [("eta", "0.5", "given"), ("phi", "gap", "default")]
