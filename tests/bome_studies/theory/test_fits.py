"""Exponents and rates are found where they are known."""

import math

import numpy as np
import pytest

from bome_studies.theory import trials as trials
from bome_studies.theory.fits import decay_rate, power


def test_exponents_of_power_laws_are_found_with_their_spread() -> None:
    x = np.array([1.0, 2.0, 5.0])
    fit = power(x, np.stack([3 * x**0.4, 7 * x**0.6], axis=1))
    assert fit == pytest.approx((0.5, 0.1, 2))


def test_a_rate_is_fitted_between_top_and_floor_only() -> None:
    k = np.arange(100.0)
    curve = np.maximum(np.where(k < 5, np.exp(5 - 1.3 * k), np.exp(-0.3 * k)), 1e-6)
    assert decay_rate(k, curve, 1e-5, math.exp(-1.4)) == pytest.approx(0.3)
