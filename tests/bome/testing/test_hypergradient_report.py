"""What a report says of a direction."""

from dataclasses import replace
from typing import Any

import pytest

from bome import BOME, GradientDescent, hypergradcheck
from bome.methods import ITD
from bome.methods.base import Method
from bome.methods.bsg1 import BSG1
from bome.methods.darts import DARTS
from bome.tasks import quadratic, quadratic_instance
from bome.testing import HypergradReport


def _quadratic(method: Method, **options: Any) -> HypergradReport:
    instance = quadratic_instance()
    problem = quadratic(start="b").problem
    return hypergradcheck(problem, method, hypergradient=lambda v: (instance.exact_hypergradient(v[0]),), **options)


@pytest.mark.parametrize("method", [DARTS(GradientDescent(0.2, 10)), BSG1(GradientDescent(0.2, 10))])
def test_methods_that_are_biased_by_construction_are_told(method: Method) -> None:
    report = _quadratic(method)
    assert not report.ok
    assert report.relative_error > 0.1
    assert "does not fall with 2T" in report.verdict
    assert "biased by construction" in report.verdict


def test_the_report_can_be_read() -> None:
    text = str(_quadratic(BOME(GradientDescent(0.2, 10))))
    for part in ("hypergradcheck of bome beside θ*(v)", "relative error", "cosine", "finite T", "O(1/λ)"):
        assert part in text


def test_a_method_with_other_settings_is_another_report() -> None:
    rough = _quadratic(ITD(GradientDescent(0.2, 2)))
    fine = _quadratic(replace(ITD(GradientDescent(0.2, 2)), inner=GradientDescent(0.2, 20)))
    assert fine.relative_error < rough.relative_error
    assert rough.errors[1] == pytest.approx(_quadratic(ITD(GradientDescent(0.2, 4))).relative_error, rel=1e-9)
