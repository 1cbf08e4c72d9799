"""The aims of the study of BOLIB, and its tables."""

from bome.tasks.bolib import RECORDS
from bome_studies.bolib.claims import claims, problems_of, rows_of, seen_of, table, unseen_of, verdicts
from bome_studies.bolib.trials import Mark, Outcome, Results, Trial

PROBLEMS = ("bolib-henrionsurowiec2011", "bolib-falkliu1995", "bolib-outrata1990ex1b", "bolib-bard1984b")
UNSEEN = "bolib-desilva1978"


def _outcome(*, rough: bool, fine: bool, claim: bool | None = None, refused: str = "") -> Outcome:
    return Outcome((Mark(10, 10, 0.0, rough, fine),) if not refused else (), claim, refused, 1.0)


def _results(ours: dict[str, Outcome]) -> Results:
    good = _outcome(rough=True, fine=True, claim=True)
    outcomes = {Trial("bome.solve", name, 0, (10,)): ours.get(name, good) for name in (*PROBLEMS, UNSEEN)}
    for name in (*PROBLEMS, UNSEEN):
        constrained = RECORDS[name].constrained
        other = _outcome(rough=name == PROBLEMS[0], fine=False, refused="no" if constrained else "")
        outcomes[Trial("bome", name, 0, (10,))] = other
    return Results(outcomes)


def test_each_aim_has_an_outcome_that_breaks_it() -> None:
    wrong = _outcome(rough=False, fine=False, claim=True)
    assert [claim.holds for claim in claims(_results({}))] == [True] * 7
    two = dict.fromkeys(PROBLEMS[:2], wrong)
    assert [claim.holds for claim in claims(_results(two))] == [False, False, True, True, True, False, True]
    coarse = dict.fromkeys(PROBLEMS[:1], _outcome(rough=True, fine=False, claim=False))
    assert [claim.holds for claim in claims(_results(coarse))] == [True, False, True, True, True, True, True]
    other = {UNSEEN: wrong}
    assert [claim.holds for claim in claims(_results(other))] == [True, True, True, False, True, True, True]
    none = dict.fromkeys((*PROBLEMS, UNSEEN), wrong)
    assert [claim.holds for claim in claims(_results(none))] == [False, False, True, False, False, False, True]
    modest = dict.fromkeys(PROBLEMS, _outcome(rough=True, fine=True, claim=False))
    assert [claim.holds for claim in claims(_results(modest))] == [True, True, True, True, True, True, False]


def test_groups_divide_the_problems() -> None:
    results = _results({})
    assert problems_of(results, "box") == ["bolib-falkliu1995", UNSEEN]
    assert problems_of(results) == [*PROBLEMS, UNSEEN]
    assert seen_of(results) == list(PROBLEMS)
    assert unseen_of(results) == [UNSEEN]


def test_the_table_has_the_best_first() -> None:
    told = table(_results({}))
    assert [row[0] for row in told.rows] == ["bome.solve", "bome"]
    assert told.rows[0][1:] == ("1", "2", "1", "1", "5", "4", "1", "5", "0", "10")
    assert told.rows[1][1:] == ("1", "0", "0", "0", "1", "1", "0", "0", "1", "10")


def test_verdicts_are_counted_for_those_who_give_them() -> None:
    (row,) = verdicts(_results({PROBLEMS[0]: _outcome(rough=False, fine=False, claim=True)})).rows
    assert row == ("bome.solve", "4", "1", "0", "0", "0")


def test_every_number_is_a_row() -> None:
    rows = list(rows_of(_results({}), "quick", "bome bench bolib"))
    assert {row.metric for row in rows} == {"solved to 1 %", "solved to 0.1 %", "evaluations", "seconds"}
    assert sum(row.metric == "solved to 1 %" for row in rows) == 10
