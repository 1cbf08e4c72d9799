"""What is said after some tests: never more than they have shown."""

import json

import pytest

from bome.certificate import Certificate, Test, verdict

HOLDS = Test("a", 0.1, 1.0, True, "a holds")
FAILS = Test("b", 2.0, 1.0, False, "b is 2, run longer")
UNTOLD = Test("c", None, None, None, "c takes more evaluations")


@pytest.mark.parametrize(
    ("tests", "says"),
    [
        ((HOLDS, HOLDS), "stationary: a holds; a holds"),
        ((HOLDS, FAILS, UNTOLD), "not stationary: b is 2, run longer"),
        ((UNTOLD, HOLDS), "not known whether it is stationary: c takes more evaluations"),
        ((), "not known whether it is stationary: nothing was tested"),
    ],
)
def test_the_claim_is_made_only_where_all_tests_hold(tests: tuple[Test, ...], says: str) -> None:
    assert verdict(tests) == says
    assert Certificate(f=1, g=2, q=0, tests=tests).verdict == says


def test_a_solver_may_claim_more_in_words_of_its_own() -> None:
    claim = "solved as far as 14 fresh starts can tell"
    assert verdict((HOLDS,), claim) == f"{claim}: a holds"
    assert verdict((FAILS,), claim) == "not solved: b is 2, run longer"


def test_a_certificate_is_written_as_json_with_its_verdict_and_without_what_was_not_measured_in_a_history() -> None:
    found = Certificate(f=1.0, g=2.0, q=0.5, tests=(HOLDS,))
    assert json.loads(json.dumps(found.to_dict())) == {
        **found.to_dict(), "tests": [{"name": "a", "value": 0.1, "limit": 1.0, "passed": True, "text": "a holds"}],
    }  # fmt: skip
    assert found.to_dict()["verdict"] == "stationary: a holds"
    assert found.numbers() == {"f": 1.0, "g": 2.0, "q": 0.5}
