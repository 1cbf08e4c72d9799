"""The aims of the matrix; `tests/distributed/test_matrix.py` measures."""

from dataclasses import replace

import pytest

from bome_studies.matrix.cells import METHODS, Attempt
from bome_studies.matrix.claims import agrees, cell_claims, measured_claims

RIGHT = Attempt("plain", "bome", works=True, error=1e-7)


@pytest.mark.parametrize(
    ("attempt", "right"),
    [
        (RIGHT, True),
        (replace(RIGHT, error=1e-5), False),
        (replace(RIGHT, cell="bf16", error=1e-3), True),
        (replace(RIGHT, same=False), False),
        (Attempt("plain", "itd", works=False, message="no"), False),
    ],
)
def test_a_step_agrees_within_the_tolerance_of_its_cell(attempt: Attempt, right: bool) -> None:
    assert agrees(attempt) is right


def test_only_methods_that_need_second_order_products_may_refuse() -> None:
    attempts = {name: replace(RIGHT, method=name) for name in METHODS}
    attempts["itd"] = Attempt("plain", "itd", works=False, message="no")
    (claim,) = cell_claims([*attempts.values()])
    assert claim.holds is True
    assert "itd refuses" in claim.found
    attempts["bome"] = Attempt("plain", "bome", works=False, message="no")
    (claim,) = cell_claims([*attempts.values()])
    assert claim.holds is False


def test_memory_must_not_grow_with_t() -> None:
    told = {("memory", 1): {"T = 1": 2.0, "T = 8": 2.05, "copy": 50.0}}
    assert [claim.holds for claim in measured_claims(told)] == [True]
    grown = {("memory", 1): {"T = 1": 1.8, "T = 8": 2.05, "copy": 50.0}}
    assert [claim.holds for claim in measured_claims(grown)] == [False]


def test_precision_is_judged_by_the_larger_change() -> None:
    precise = {"lam": 1.0, "lam_change": 1e-3, "length_change": 1e-3}
    for change, holds in (({}, True), ({"lam_change": 0.02}, False), ({"length_change": 0.02}, False)):
        told = {("cells", 1): {"measures": {"precision": {**precise, **change}}}}
        assert [claim.holds for claim in measured_claims(told)] == [holds]
