"""The aims of the study of scale."""

from bome_studies.scale.claims import claims, rows_of
from bome_studies.scale.trials import Measured


def _numbers(ratio: float = 1.5, copies: float = 2.0, seconds: float = 1.0) -> Measured:
    point = {"ratio": ratio, "copies": copies, "seconds": 1.0}
    return {
        "parameters": {10**4: {**point, "copies": 9.0}, 10**7: point},
        "T": {1: {**point, "copies": 2.0}, 5: point},
        "samples": {100: {"ratio": 1.0, "seconds": 1.0}, 10**6: {"ratio": 1.0, "seconds": seconds}},
        "ranks": {1: {"ratio": ratio - 0.4, "seconds": 1.0}},
    }


def test_each_aim_has_a_number_that_breaks_it() -> None:
    assert [claim.holds for claim in claims(_numbers())] == [True] * 5
    assert [claim.holds for claim in claims(_numbers(ratio=2.1))] == [False, True, True, True, False]
    assert [claim.holds for claim in claims(_numbers(copies=2.2))] == [True, False, False, True, True]
    assert [claim.holds for claim in claims(_numbers(seconds=1.6))] == [True, True, True, False, True]


def test_every_number_is_a_row() -> None:
    rows = list(rows_of(_numbers(), "quick", "bome bench scale"))
    assert len(rows) == 2 * 3 + 2 * 3 + 2 * 2 + 2
    assert ("samples", "1000000", "seconds") in {(row.task, row.variant, row.metric) for row in rows}
