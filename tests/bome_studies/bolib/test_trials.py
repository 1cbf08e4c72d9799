"""Trials are judged at each budget, and what is counted of them."""

from dataclasses import asdict

import torch

from bome import Problem
from bome.tasks.bolib import RECORDS
from bome_studies.bolib.contenders import Called, Stepped
from bome_studies.bolib.trials import Mark, Outcome, Results, Trial, outcome_of, restored

BOX = RECORDS["bolib-falkliu1995"]


def _outcome(*rough: bool, claim: bool | None = None, refused: str = "") -> Outcome:
    marks = tuple(Mark(100 * (k + 1), 100 * (k + 1), 0.0, each, False) for k, each in enumerate(rough))
    return Outcome(marks, claim, refused, 1.0)


def _results() -> Results:
    def trial(contender: str, problem: str, seed: int) -> Trial:
        return Trial(contender, problem, seed, (100, 200))

    return Results(
        {
            trial("a", "p", 0): _outcome(True, True, claim=True),
            trial("a", "p", 1): _outcome(False, True, claim=False),
            trial("a", "q", 0): _outcome(True, False, claim=True),
            trial("a", "q", 1): _outcome(False, False),
            trial("b", "p", 0): _outcome(refused="no"),
            trial("b", "q", 0): _outcome(False, True),
        }
    )


def test_an_answer_is_judged_to_both_tolerances() -> None:
    def solver(problem: Problem, budget: int, seed: int) -> bool | None:
        away = {10: 0.5, 20: 0.05, 30: 0.001}[budget]
        with torch.no_grad():
            for z in (*problem.v.leaves, *problem.theta.leaves):
                z.copy_(torch.tensor([0.75 + away, 0.75 + away]))
        return budget == 30

    outcome = outcome_of(Called(solver), BOX, (10, 20, 30), 0)
    assert [(mark.rough, mark.fine) for mark in outcome.marks] == [(False, False), (True, False), (True, True)]
    assert outcome.claim is True
    assert outcome.needed == 20


def test_what_is_not_finite_is_not_solved() -> None:
    def solver(problem: Problem, budget: int, seed: int) -> bool | None:
        with torch.no_grad():
            problem.v.leaves[0].fill_(torch.nan)
        return True

    (mark,) = outcome_of(Called(solver), BOX, (10,), 0).marks
    assert not mark.rough


def test_a_refusal_is_kept_in_words() -> None:
    outcome = outcome_of(Stepped("itd"), RECORDS["bolib-bard1984b"], (50,), 0)
    assert outcome.marks == ()
    assert "no constraints" in outcome.refused


def test_an_outcome_survives_its_file() -> None:
    outcome = _outcome(True, False, claim=False)
    assert restored(asdict(outcome)) == outcome


def test_needed_is_the_first_budget_from_which_all_answers_are_right() -> None:
    assert _outcome(True, False, True, True).needed == 300
    assert _outcome(True, True).needed == 100
    assert _outcome(True, False).needed is None
    assert _outcome().needed is None


def test_results_count_over_problems_and_seeds() -> None:
    results = _results()
    assert results.solved("a", ("p", "q")) == 1.0
    assert results.solved("a", ("p", "q"), 100) == 1.0  # half of p and half of q
    assert results.solved("b", ("p", "q")) == 1.0
    assert results.refused("b", ("p", "q")) == 1
    assert results.needed("a", ("p", "q")) == 150
    assert results.each_seed("a", ("p", "q")) == [1, 1]
    assert results.claimed("a", ("p", "q"), claim=True, solved=True) == 1
    assert results.claimed("a", ("p", "q"), claim=True, solved=False) == 1
    assert results.claimed("a", ("p", "q"), claim=False, solved=True) == 1
    assert results.claimed("a", ("p", "q"), claim=None, solved=False) == 1


def test_one_that_has_further_budgets_is_counted_at_those_of_all_and_claims_at_its_last() -> None:
    more = Trial("more", "p", 0, (100, 200, 300))
    results = Results({more: _outcome(False, False, True, claim=True), Trial("a", "p", 0, (100, 200)): _outcome(True)})
    assert results.budgets == (100, 200)
    assert results.of["more"][-1] == 300
    assert results.solved("more", ("p",)) == 0
    assert results.solved("more", ("p",), 300) == 1
    assert results.claimed("more", ("p",), claim=True, solved=True) == 1
    assert results.each_seed("more", ("p",)) == [1]
