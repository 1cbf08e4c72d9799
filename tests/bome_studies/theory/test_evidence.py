"""Verdicts on slopes."""

import numpy as np

from bome_studies.theory import trials as trials
from bome_studies.theory.evidence import slope_claim
from bome_studies.theory.fits import power


def test_a_slope_within_two_standard_errors_of_its_bound_decides_nothing() -> None:
    fits = {
        mean: power(np.array([1.0, 2.0]), np.array([[1, 1], [2 ** (mean - 0.1), 2 ** (mean + 0.1)]]))
        for mean in (0.35, 0.5, 0.8)
    }
    assert [slope_claim("", "", "", fit, 0.5).holds for fit in fits.values()] == [None, None, True]
    assert slope_claim("", "", "", fits[0.35]._replace(se=0.01), 0.5).holds is False
