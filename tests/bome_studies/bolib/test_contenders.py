"""Those who take part, on problems whose answers are known."""

import pytest
import torch

from bome import Problem, ProblemError
from bome.certificate import Certificate, Test
from bome.runs.names import METHODS
from bome.tasks.bolib import RECORDS
from bome_studies.bolib.contenders import (
    SOLVE,
    Called,
    RandomSearch,
    RefusedError,
    Start,
    Stepped,
    claim_of,
    contenders,
)

FREE, BOX, CONSTRAINED = (
    RECORDS[f"bolib-{name}"] for name in ("henrionsurowiec2011", "falkliu1995", "bard1984b")
)  # fmt: skip


def test_every_method_takes_part() -> None:
    assert set(contenders()) >= {SOLVE, *METHODS, "random search", "start"}
    assert next(iter(contenders())) == SOLVE


def test_a_method_is_seen_at_each_budget_and_claims_something_at_the_end() -> None:
    answers = list(Stepped("itd").answers(FREE, (62, 124, 310), 0))
    assert [answer.evaluations for answer in answers] == [62, 124, 310]  # a step has 31
    f = [float(FREE.f(answer.x, answer.y)) for answer in answers]
    assert f[0] > f[1] > f[2] > 0
    assert [answer.claim for answer in answers[:2]] == [None, None]


def test_a_method_that_takes_no_constraints_refuses() -> None:
    with pytest.raises(RefusedError, match="itd takes no constraints"):
        list(Stepped("itd").answers(CONSTRAINED, (50,), 0))


def test_a_run_that_diverges_keeps_what_it_had() -> None:
    """MacalHurter1997: ∂²f/∂v² along θ*(v) is 5,002, and α = 0.1."""
    steep = RECORDS["bolib-macalhurter1997"]
    answers = list(Stepped("itd").answers(steep, (62, 5000), 0))
    assert len(answers) == 1


def test_a_function_is_called_anew_for_each_budget() -> None:
    asked: list[tuple[int, int]] = []

    def solver(problem: Problem, budget: int, seed: int) -> bool | None:
        asked.append((budget, seed))
        assert problem.point.v[0].tolist() == [0, 0]
        with torch.no_grad():
            problem.v.leaves[0].fill_(0.75)
        if budget == 20:
            raise ProblemError("it fails after it has found v")
        return True

    answers = list(Called(solver).answers(BOX, (10, 20), 3))
    assert asked == [(10, 3), (20, 3)]
    assert [answer.x.tolist() for answer in answers] == [[0.75, 0.75]] * 2
    assert [answer.claim for answer in answers] == [True, None]


def test_random_search_gets_better_and_keeps_to_the_reach() -> None:
    answers = list(RandomSearch().answers(RECORDS["bolib-mitsosbarton2006ex313"], (200, 400, 800), 0))
    f = [float(answer.x[0] - answer.y[0]) for answer in answers]
    assert f[0] >= f[1] >= f[2]
    assert all(abs(float(z)) <= 1 + 1e-9 for answer in answers for z in (answer.x[0], answer.y[0]))
    assert answers[2].evaluations >= 800
    assert answers[2].evaluations < 1200


def test_the_start_is_projected() -> None:
    (answer,) = Start().answers(RECORDS["bolib-dempefranke2014ex38"], (100,), 0)
    assert answer.x.tolist() == [1, -0.75]


def test_a_claim_needs_all_tests() -> None:
    def certificate(*passed: bool | None) -> Certificate:
        return Certificate(f=0, g=0, q=0, tests=tuple(Test("", None, None, each, "") for each in passed))

    assert claim_of(certificate(True, True)) is True
    assert claim_of(certificate(True, None)) is None
    assert claim_of(certificate(True, None, False)) is False
    assert claim_of(certificate()) is None
