"""Floors and rates are judged by the slopes that they are made up with."""

import pytest

from bome_studies.theory.floors import floors, schedules
from tests.support.evidence import evidence


def test_floors_that_fall_faster_than_their_bounds_hold() -> None:
    topic = floors(evidence())
    assert [claim.holds for claim in topic.claims] == [True] * 4
    means = {(row.task, row.metric): row.mean for row in topic.rows}
    assert means["quadratic", "exponent of 𝒦 in ξ"] == pytest.approx(1, abs=0.05)
    assert means["wavy", "exponent of q in ξ"] == pytest.approx(2, abs=0.05)
    assert means["quadratic", "exponent of λ in ξ"] == pytest.approx(-1, abs=0.05)
    assert len(topic.section.figures) == 2


def test_schedules_are_fitted_in_the_number_of_steps() -> None:
    """With ξ = K^{-1/2} a measure ∝ ξ falls like K^{-1/2}, with ξ = K^{-2/3} like K^{-2/3}."""
    topic = schedules(evidence())
    assert [claim.holds for claim in topic.claims] == [True] * 4
    means = [row.mean for row in topic.rows if row.metric == "exponent of min_k 𝒦 in K"]
    assert means == pytest.approx([-1 / 2, -1 / 2, -2 / 3, -2 / 3], abs=0.05)
